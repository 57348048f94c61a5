"""`pykubelet apiserver`: runs the Kubernetes API for one machine."""

import gc
from pathlib import Path
from typing import Any

import click

from pykubelet.cli.client_command import EXISTING_FILE, FOLDER, PORT
from pykubelet.cli.server_command import start, start_empty_option, with_logs

_EXAMPLES = """\b
Examples:
  pykubelet apiserver --data-dir ./data
  pykubelet apiserver --port 0 --token-file tokens.csv
  pykubelet get ns --kubeconfig data/admin.kubeconfig

Exit codes: 0 stopped by a signal, 1 failure, 2 invalid arguments.
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--data-dir",
    type=FOLDER,
    default=Path(".pykubelet"),
    show_default=True,
    help="Folder of the database, keys, certificates and admin.kubeconfig.",
)
@start_empty_option
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", type=PORT, default=6443, show_default=True, help="Port to listen on; 0 takes any free one.")
@click.option(
    "--external-hostname", "external_host", default="", metavar="HOST[:PORT]", help="External host name of this server."
)
@click.option("--token-file", type=EXISTING_FILE, help='Static tokens, one per line: token,user,uid,"group1,group2".')
@click.option(
    "--tls-cert", type=EXISTING_FILE, help="Serving certificate (PEM, with its chain) instead of a self-made one."
)
@click.option("--tls-key", type=EXISTING_FILE, help="Private key of --tls-cert.")
@click.option("--client-ca", type=EXISTING_FILE, help="Additional authority (PEM) of client certificates.")
@click.option(
    "--event-ttl",
    "event_ttl_seconds",
    type=click.FloatRange(min=1),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Lifetime of events.",
)
@click.option(
    "--encryption-key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Encrypt secrets at rest with the key in this file, which is created if missing.",
)
@click.option("--audit-log/--no-audit-log", "audit", default=True, show_default=True, help="Write DATA_DIR/audit.log.")
@click.option(
    "--service-account-admission/--no-service-account-admission",
    default=False,
    show_default=True,
    help="Mount a service account token into every pod that does not opt out.",
)
@with_logs
@click.pass_context
def apiserver(context: click.Context, /, *, verbose: bool, log_format: str, **options: Any) -> None:
    """Run the Kubernetes API for one machine, stored in a single SQLite file."""
    if bool(options["tls_cert"]) != bool(options["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key need each other", context)
    # Imported objects stay alive: collecting garbage meanwhile would cost a tenth of the start time.
    gc.disable()
    from pykubelet.app.apiserver import run
    from pykubelet.app.settings import ApiServerSettings

    start(run, ApiServerSettings(**options), verbose=verbose, log_format=log_format)
