"""The cluster's DNS: answers from an index that follows the API, and forwards everything else.

`server.py` listens, `zone.py` holds the index, `records.py` says which records objects have, `message.py` is the wire
format, `forwarder.py` asks the machine's name servers, and `service.py` keeps the Service `kube-dns`.
"""
