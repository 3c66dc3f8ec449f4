"""``gpuctl completion``: print a shell's completion script."""

from __future__ import annotations

import click

COMPLETION = "_GPUCTL_COMPLETE"
"""The variable with which a shell asks click for completions."""
PROGRAM = "gpuctl"
INSTALL = {
    "bash": "gpuctl completion bash > ~/.local/share/bash-completion/completions/gpuctl",
    "zsh": "gpuctl completion zsh > ~/.zfunc/_gpuctl   (with ~/.zfunc in $fpath)",
    "fish": "gpuctl completion fish > ~/.config/fish/completions/gpuctl.fish",
}


@click.command(
    "completion",
    short_help="Print a shell's completion script.",
    epilog="Example:\n\n  $ gpuctl completion bash\n\nTo keep it:\n\n\b\n"
    + "\n".join(f"  {line}" for line in INSTALL.values()),
)
@click.argument("shell", type=click.Choice(list(INSTALL)))
def command(shell: str) -> int:
    """Print a shell's completion script."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None, "click completes these shells"
    click.echo(completion(click.get_current_context().find_root().command, {}, PROGRAM, COMPLETION).source())
    return 0
