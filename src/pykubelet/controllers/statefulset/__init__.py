"""StatefulSets: pods that have a number, a name that stays, and volumes of their own."""
