"""What both reports have in common: who asked for them, what is hidden in them, and where they are kept."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from supervisor_core.adapters.report_files import report_name, write_report
from supervisor_core.adapters.report_masking import Masking
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.times import to_text
from supervisor_core.handlers.context import Host


def masking_of(config: SupervisorConfig) -> Masking:
    """What hides the configuration's secrets. What is called in the open is none, though `env` may repeat it."""
    return Masking(config.secrets(), public=(*config.workers, config.supervisor.id))


def keep_report(host: Host, job: Job, kind: str, content: Mapping[str, Any], masking: Masking) -> dict[str, str]:
    """Write the report; for the details of the outcome, where it is and why it may not be on the drive.

    What identifies the report is told as it is; whatever people chose or programs said has been masked.
    """
    config = host.config
    document = {
        "report": kind,
        "timestamp": to_text(host.now()),
        "supervisor_id": config.supervisor.id,
        "worker_id": job.worker_id,
        "task_id": job.task_id,
        "hostname": socket.gethostname(),
        "label": masking.text(job.label) if job.label else None,
        "audit_label": masking.text(job.audit_label),
        "asked_by": masking.text(job.issuer.id),
        **content,
    }
    try:
        written = write_report(
            host.drive,
            config.folder("logs"),
            config.state_dir,
            lambda: report_name(kind, job.worker_id, host.now(), job.label),
            document,
            config.nas.file_mode,
        )
    except OSError as error:
        return {"report_problem": f"The report could not be written: {error}"}
    where = {"report_path": str(written.path), "report_sha256": written.sha256}
    if written.problem:
        where["drive"] = f"The report is in the state folder of the host. {written.problem}"
    return where
