"""Texts of the reference that are not in the code: files in the data folder, and environment variables."""

FILES = (
    ("admin.kubeconfig", "0600", "A way in as administrator, written at each start."),
    ("audit.log", "0600", "Who wrote what: a line of JSON for each write; `--no-audit-log` turns it off."),
    ("page-link", "0600", "The link that opens the page, until it is used; then the next one."),
    ("backup.db", "0600", "A copy of state.db, made whenever the program gets SIGUSR1."),
    ("state.db", "0600", "Every object: one SQLite file."),
    ("state.db-wal", "0600", "Its log; the two belong together."),
    ("state.db.old-1", "", "An earlier database, set aside by `--new`, with its log; counted up from 1."),
    ("pki/ca.crt", "0644", "The authority's certificate."),
    ("pki/ca.key", "0600", "The private key of the authority; it can sign a certificate for any user."),
    ("pki/apiserver.crt", "0644", "The server's own certificate, renewed in time."),
    ("pki/apiserver.key", "0600", "Its key."),
    ("pki/sa.key", "0600", "Signs the tokens of service accounts."),
    ("volumes/", "", "The data of claims, a folder for each volume, which only its reclaim policy removes."),
    ("node/", "0750", "The node's folder, `--root-dir` of `pykubelet node`; the rest is in it."),
    (
        "node/logs/pods/",
        "",
        "What containers wrote, a folder for each pod, a file for each start; kubectl logs reads it.",
    ),
    ("node/logs/containers/", "", "Links to these files, as collectors of logs look for them."),
    (
        "node/node.json",
        "0600",
        "What the node is run with: its name and cluster for the next start, the rest for `pykubelet check --cis`.",
    ),
    ("node/cni/", "", "The addresses that pods on a CRI runtime have, if the node wrote their network configuration."),
    ("node/pki/", "0700", "The certificates and keys of the node: of its own API, and the one it joined with."),
    ("node/pods/", "", "The volumes of pods, a folder for each UID, and their hosts files and termination messages."),
    ("node/kubelet.lock", "0600", "Locked while the node runs, so that no second one uses the folder."),
    ("node/process/", "", "Containers that are processes: what each was asked to be, and how it ended."),
    ("node/seccomp/", "", "Looked into for the `Localhost` profiles of pods; nothing is written there."),
)
"""Name in the data folder, rights if they are always the same, meaning. One that ends with a slash is a folder with all in it."""

VARIABLES = {
    "KUBECONFIG": "Files that say how to reach the API server, with colons between them, where `--kubeconfig` is not given.",
    "TERM": "With `dumb`, `pykubelet up` prints lines on a terminal instead of drawing its pods.",
    "HOME": "Where `.kube/config` is looked for by `client.clientcmd.default_paths`.",
    "KUBERNETES_SERVICE_HOST": "With KUBERNETES_SERVICE_PORT: where the API server is, for `client.clientcmd.in_cluster`.",
    "KUBERNETES_SERVICE_PORT": "See KUBERNETES_SERVICE_HOST.",
    "GRPC_VERBOSITY": "How much gRPC says by itself; ERROR unless it is set.",
    "LD_LIBRARY_PATH": "Handed on to supervisors of containers, which may need it to start Python; never to containers.",
}
"""Variables that are read. A kubeconfig's credential plugin gets the whole environment and KUBERNETES_EXEC_INFO."""
