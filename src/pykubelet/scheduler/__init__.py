"""The scheduler (`default-scheduler`): assigns pods to nodes.

`schedule_one.py` schedules one pod after the other, with `filters.py` and `scores.py` over the `SchedulerCache`. Not
implemented: preemption (a pod that does not fit waits, whatever its priority), volumes and resource claims, default
spread constraints, and sampling of nodes in large clusters.
"""
