"""The settings of a systemd service that a worker doesn't have, with the reason and an alternative. Pure."""

from __future__ import annotations

from fnmatch import fnmatch

_ORDER = "workers start at the same time; make a worker wait for what it needs"
_WORDS = "it only describes the service"
_CHECKS = "there's no check before a start; do it in the command, and exit if it fails"
_LIMITS = "workers have no limits of their own; start the command with prlimit, nice or ionice"
_SANDBOX = "workers have no sandbox of their own; the supervisor's unit has what works for all of them"
_FOLDERS = "create the folder yourself, and name it in the worker's env if it reads the variable"
_CREDENTIALS = "put the secret into .env, and name it in the worker's env"
_USER = "a worker runs as the supervisor's user; for another user, run another supervisor"
_OUTPUT = "stdout and stderr are captured together, in the state folder"
_BEFORE = "run it in a script that ends with `exec` and the command"
_AFTER = "nothing runs after a start or a stop; do it in the worker, or with an alert webhook"
_STOP = "stop_signal ends the worker; let it handle the signal"
_RELOAD = "there is no reload; `supervisor restart` restarts the worker"
_HANG = "let the worker write heartbeats or add probes, and set restart.on_hang"
_CODES = "with on-failure, every exit code but 0 is a failure"
_START = "a start succeeds once the worker has run for start_grace_seconds"
_DESCENDANTS = "every descendant is stopped, and killed after stop_timeout_seconds"
_ALERTS = "an alert reports the failure"
_BACKOFF = "the wait doubles with each restart, up to 5 minutes"
_PROCESS = "the supervisor knows the process that it started"
_SOCKETS = "sockets aren't handed over; let the worker open its own"
_SCHEDULE = "`supervisor schedule` can restart the worker at set times"
_SYSTEMD = "it's about systemd's own work"

REASONS = {
    _WORDS: "Description Documentation SourcePath",
    _ALERTS: "OnFailure OnSuccess OnFailureJobMode OnSuccessJobMode *Action RebootArgument",
    _BEFORE: "ExecStartPre ExecCondition",
    _AFTER: "ExecStartPost ExecStopPost",
    _STOP: "ExecStop",
    _RELOAD: "ExecReload* ReloadSignal",
    _HANG: "Watchdog* NotifyAccess",
    _CODES: "SuccessExitStatus RestartPreventExitStatus RestartForceExitStatus",
    _START: "TimeoutStart* JobTimeout* JobRunningTimeout* StartupCPU*",
    _SCHEDULE: "RuntimeMaxSec RuntimeRandomizedExtraSec",
    _DESCENDANTS: "KillMode SendSIG* FinalKillSignal RestartKillSignal TimeoutAbortSec TimeoutStopFailureMode",
    _BACKOFF: "RestartSteps RestartMaxDelaySec RestartMode",
    _PROCESS: "PIDFile RemainAfterExit GuessMainPID BusName RootDirectoryStartOnly ExitType",
    _SOCKETS: "Sockets FileDescriptorStore* OpenFile NonBlocking USBFunction*",
    _USER: "User Group SupplementaryGroups DynamicUser PAMName SetLoginEnvironment",
    _OUTPUT: "Standard* Syslog* Log* TTY* Utmp*",
    _FOLDERS: "RuntimeDirectory* StateDirectory* CacheDirectory* LogsDirectory* ConfigurationDirectory*",
    _CREDENTIALS: "LoadCredential* SetCredential* ImportCredential*",
    _CHECKS: "Condition* Assert*",
    _LIMITS: "Limit* Memory* CPU* IO* BlockIO* Tasks* Nice OOM* Slice Delegate* IPA* IPE* IPI* Device* NUMA* UMask "
    "CoredumpFilter TimerSlackNSec Managed* DisableControllers DefaultMemory* AllowedCPUs Startup* KeyringMode",
    _SANDBOX: "Protect* Private* Restrict* NoNewPrivileges Capabilit* Ambient* SystemCall* ReadOnly* ReadWrite* "
    "Inaccessible* NoExec* Exec*Paths Bind*Paths Root* Mount* TemporaryFileSystem LockPersonality RemoveIPC Secure* "
    "SELinux* AppArmor* Smack* Extension* Network* ProcSubset Personality PassEnvironment",
    _ORDER: "After Before Requires Requisite Wants BindsTo PartOf Upholds Conflicts Propagates* StopPropagatedFrom "
    "JoinsNamespaceOf RequiresMountsFor WantsMountsFor DefaultDependencies StopWhenUnneeded",
    _SYSTEMD: "Alias Also DefaultInstance Refuse* AllowIsolate Collect* IgnoreOnIsolate SurviveFinalKillSignal",
}
"""The keys, or patterns of keys, by the reason; the first that fits counts."""

_UNKNOWN = "nothing here corresponds to it"


def reason_for(key: str) -> str:
    """The reason why a setting isn't converted, and an alternative."""
    return next(
        (reason for reason, keys in REASONS.items() if any(fnmatch(key, each) for each in keys.split())), _UNKNOWN
    )
