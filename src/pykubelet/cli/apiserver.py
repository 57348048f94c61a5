"""`pykubelet apiserver`: the Kubernetes API for one machine, until it is told to stop.

Exit code 0 after SIGINT or SIGTERM, 1 if it cannot start or go on, 2 for arguments that make no sense.
"""

import gc
from pathlib import Path
from typing import Any

import click

from pykubelet.cli.server_command import start, with_logs

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_EXAMPLES = """\b
Examples:
  pykubelet apiserver --data-dir ./data
  pykubelet apiserver --port 0 --token-file tokens.csv
  pykubelet get ns --kubeconfig data/admin.kubeconfig

Exit codes: 0 it was told to stop, 1 it could not start or go on, 2 the arguments make no sense.
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".pykubelet"),
    show_default=True,
    help="Where everything is kept: the objects, keys and certificates, admin.kubeconfig.",
)
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="The port; 0 takes any free one."
)
@click.option(
    "--external-hostname", "external_host", default="", metavar="HOST[:PORT]", help="How clients call this server."
)
@click.option("--token-file", type=_FILE, help='Static tokens, a line each: token,user,uid,"group1,group2".')
@click.option("--tls-cert", type=_FILE, help="Serve with this certificate (PEM, with its chain) and not an own one.")
@click.option("--tls-key", type=_FILE, help="The private key of --tls-cert.")
@click.option("--client-ca", type=_FILE, help="Let in clients with certificates of this authority (PEM) as well.")
@click.option(
    "--event-ttl",
    "event_ttl_seconds",
    type=click.FloatRange(min=1),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long events are kept.",
)
@click.option(
    "--encryption-key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Encrypt secrets at rest with the key in this file; made if there is none.",
)
@click.option("--audit-log/--no-audit-log", "audit", default=True, show_default=True, help="Write DATA_DIR/audit.log.")
@click.option(
    "--service-account-admission/--no-service-account-admission",
    default=False,
    show_default=True,
    help="Mount a service account's token into every pod that does not refuse it.",
)
@with_logs
@click.pass_context
def apiserver(context: click.Context, /, *, verbose: bool, log_format: str, **options: Any) -> None:
    """Run the Kubernetes API for one machine, stored in a single SQLite file."""
    if bool(options["tls_cert"]) != bool(options["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key need each other", context)
    # What is imported stays: looking for garbage in it meanwhile would cost a tenth of the start.
    gc.disable()
    from pykubelet.app.apiserver import run
    from pykubelet.app.settings import ApiServerSettings

    start(run, ApiServerSettings(**options), verbose=verbose, log_format=log_format)
