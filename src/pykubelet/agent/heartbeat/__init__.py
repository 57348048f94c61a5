"""What this node says of itself: that it is there, how it is, that it still lives."""

from pykubelet.agent.heartbeat.conditions import Pressures, Problems
from pykubelet.agent.heartbeat.facts import Machine, MachineFacts
from pykubelet.agent.heartbeat.lease import NodeLease
from pykubelet.agent.heartbeat.machine import LinuxMachine, node_ip
from pykubelet.agent.heartbeat.node_status import NodeSettings, Situation, initial_node
from pykubelet.agent.heartbeat.own_node import NodeAnyway, OwnNode
from pykubelet.agent.heartbeat.reporter import NodeHealth, NodeReporter, Surroundings, node_reference

__all__ = [
    "LinuxMachine",
    "Machine",
    "MachineFacts",
    "NodeAnyway",
    "NodeHealth",
    "NodeLease",
    "NodeReporter",
    "NodeSettings",
    "OwnNode",
    "Pressures",
    "Problems",
    "Situation",
    "Surroundings",
    "initial_node",
    "node_ip",
    "node_reference",
]
