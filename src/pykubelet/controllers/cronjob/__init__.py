"""The CronJob controller: creates Jobs on a schedule."""
