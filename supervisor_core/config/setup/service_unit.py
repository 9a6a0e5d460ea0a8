"""The systemd unit that runs the daemon, for the paths of this installation. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor_core.config.setup.unit_files import quoted_word

UNIT_NAME = "supervisor-chatops.service"
SYSTEM_FOLDER = "/etc/systemd/system"

_TEMPLATE = """\
# {place}
[Unit]
Description=Supervisor of this host's workers
{after}# Retry forever, instead of giving up after the fifth failed start.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
{user}ExecStart={command}
Restart=always
RestartSec=2
# An invalid configuration is still invalid two seconds later.
RestartPreventExitStatus=2
# A start waits up to 60 s for a running pass, then for its services.
TimeoutStartSec=3min
# Restart a daemon that hangs. Its workers keep running.
WatchdogSec=60
# Keep workers running when the daemon stops, or when the kernel kills one for its memory.
KillMode=process
OOMPolicy=continue
# A stop finishes the running command. One that takes longer than 10 min is cut off and reported as interrupted.
TimeoutStopSec=620
# These also apply to workers. Remove them if a worker must use sudo. Don't add PrivateTmp, ProtectSystem or
# RuntimeDirectory: workers outlive the daemon and would keep an old view of the disks.
NoNewPrivileges=yes
RestrictSUIDSGID=yes
LockPersonality=yes

[Install]
WantedBy={target}
"""

_AFTER = "After=network-online.target remote-fs.target\nWants=network-online.target\n"


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """The unit of the daemon: of the system, or of a user's own systemd."""

    program: tuple[str, ...]
    """The command `supervisor`: the script of this installation, or an interpreter with a module."""
    config: str
    user: str = ""
    """The user who runs the daemon; empty for a unit of a user's own systemd."""
    place: str = f"{SYSTEM_FOLDER}/{UNIT_NAME}"

    @property
    def text(self) -> str:
        return _TEMPLATE.format(
            place=self.place,
            after=_AFTER if self.user else "",
            user=f"User={self.user}\n" if self.user else "",
            command=" ".join(
                quoted_word(word, program=place == 0)
                for place, word in enumerate((*self.program, "run", "--config", self.config))
            ),
            target="multi-user.target" if self.user else "default.target",
        )

    def commands(self, file: str, by_root: bool) -> tuple[str, ...]:
        """The commands that start it now and at every boot. They copy it, because `/home` may be mounted later."""
        name = UNIT_NAME.removesuffix(".service")
        if self.user:
            sudo = "" if by_root else "sudo "
            return (f"{sudo}cp {file} {SYSTEM_FOLDER}/", f"{sudo}systemctl enable --now {name}")
        return (
            "loginctl enable-linger",
            f"systemctl --user enable --now {file}",
        )
