"""The rules that the records of a fleet keep, whatever failed: nothing lost, nothing twice, the order kept. Pure.

`violations` names each rule that is broken, and how. `defects.py` has records that break each of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from supervisor_core.alerts.rules import AlertState
from supervisor_core.jobs.model import FINAL, NOT_BEGUN
from supervisor_core.storage.audit.chain import GENESIS, damage_of
from supervisor_core.workers.conditions import Condition
from tests.support.daemon.fleet_faults.effects import explained
from tests.support.daemon.fleet_faults.records import Fault, FleetRecord, LedgerRecord, Row

HUB = "hub"
COPIED = ("handler", "label", "issuer_id", "state", "success", "started_at", "finished_at")
UNFINISHED = (":hourglass_flowing_sand:", ":white_medium_square:")
"""The signs of what waits or runs on a card."""

TOO_LATE = "had to be started by"
"""Words about a command whose deadline had passed."""


def violations(record: FleetRecord) -> list[str]:
    """Each rule that is broken, and how."""
    return [f"{name}: {words}" for name, rule in RULES.items() for words in rule(record)]


def nothing_is_lost(record: FleetRecord) -> Iterator[str]:
    """A command that Slack saw acknowledged has a job for each worker that it names; one that was lost has none."""
    there = defaultdict(set)
    for job in record.hub.jobs:
        there[job["label"]].add(job["worker_id"])
    for command in record.sent:
        found = there.pop(command.label, set())
        if found != set(command.workers) and (command.acknowledged or found):
            yield f"{command} has jobs for {sorted(found)}"
    for label in there:
        yield f"nobody sent {label}"


def nothing_is_doubled(record: FleetRecord) -> Iterator[str]:
    """A command has one id, and at most one job for each worker in the hub and on its host."""
    ids = defaultdict(set)
    for job in record.hub.jobs:
        ids[job["label"]].add(job["task_id"])
    yield from (f"{label} has the ids {sorted(some)}" for label, some in ids.items() if len(some) > 1)
    for name, ledger in _ledgers(record):
        count = Counter((job["task_id"], job["worker_id"]) for job in ledger.jobs)
        yield from (f"{name} has {each} {number} times" for each, number in count.items() if number > 1)


def everything_ends(record: FleetRecord) -> Iterator[str]:
    """Each job has ended, on its host and in the hub."""
    for name, ledger in _ledgers(record):
        for job in ledger.jobs:
            if job["state"] not in FINAL or job["success"] is None or job["finished_at"] is None:
                yield f"{name} has {_name(job)} {job['state']}"


def hub_has_the_rows_of_its_hosts(record: FleetRecord) -> Iterator[str]:
    """The hub's jobs are the hosts' jobs. Those that aren't on a host never had their turn."""
    copies = {(job["task_id"], job["worker_id"]): job for job in record.hub.jobs}
    for host, ledger in record.hosts.items():
        for job in ledger.jobs:
            copy = copies.pop((job["task_id"], f"{host}/{job['worker_id']}"), None)
            if copy is None:
                yield f"the hub doesn't have {_name(job)} of {host}"
                continue
            differ = [name for name in COPIED if copy[name] != job[name]]
            if _own_words(copy["error"], host, ledger) != (job["error"] or ""):
                differ.append("error")
            if differ:
                yield f"{_name(copy)} differs from its host's row in {', '.join(differ)}"
    yield from (f"{_name(job)} never reached its host" for job in copies.values() if not _passed_over(job))


def order_is_kept(record: FleetRecord) -> Iterator[str]:
    """A host files what the hub sent in the order in which it was sent. No job of a worker starts before another one
    that was requested earlier and came earlier.

    Commands overtake others of a lower tier: a restart doesn't wait for a report.
    """
    for host, ledger in record.hosts.items():
        here = [job for job in record.hub.jobs if job["worker_id"].startswith(f"{host}/") and job["claimed_at"]]
        sent = sorted(here, key=lambda job: (job["claimed_at"], job["filed_at"], job["job_id"]))
        known = {job["task_id"] for job in sent}  # not that of a host whose report was quicker than the hub's note
        filed = [job for job in ledger.jobs if job["task_id"] in known]
        for tier in {job["tier"] for job in ledger.jobs}:
            yield from _out_of_order(host, _ids(sent, tier), _ids(filed, tier))
            begun = sorted(
                (job for job in ledger.jobs if job["tier"] == tier and job["started_at"]),
                key=lambda job: job["started_at"],
            )
            for first, second in combinations(begun, 2):
                later = first["filed_at"] > second["filed_at"] and first["job_id"] > second["job_id"]
                if later and first["worker_id"] == second["worker_id"]:
                    yield f"on {host}, {_name(first)} started before {_name(second)}"


def effects_happen_once(record: FleetRecord) -> Iterator[str]:
    """The starts and stops that a worker noted are those of its jobs."""
    for address, notes in record.notes.items():
        host, _, worker = address.partition("/")
        begun = [job for job in record.hosts[host].jobs if job["worker_id"] == worker and job["started_at"]]
        begun.sort(key=lambda job: job["started_at"])
        if not explained(notes, begun):
            did = ", ".join(f"{job['handler']} ({'done' if job['success'] else job['state']})" for job in begun)
            yield f"{address} noted {' '.join(notes)}, but its jobs were: {did}"


def audit_chains_are_whole(record: FleetRecord) -> Iterator[str]:
    """Each row of an audit trail follows the one before it, and the hub's copy is the host's."""
    for name, ledger in _ledgers(record):
        for owner in {row["supervisor_id"] for row in ledger.audit}:
            chain = [row for row in ledger.audit if row["supervisor_id"] == owner]
            yield from (f"in {name}, {words}" for words in _broken(owner, chain))
    for host, ledger in record.hosts.items():
        copied = [row["hash"] for row in record.hub.audit if row["supervisor_id"] == host]
        own = [row["hash"] for row in ledger.audit if row["supervisor_id"] == host]
        if copied != own:
            yield f"the hub has {len(copied)} rows of {host}, which has {len(own)}"


def every_end_is_audited_once(record: FleetRecord) -> Iterator[str]:
    """The supervisor that ended a job has exactly one audit row for it."""
    at_hosts = {(job["task_id"], f"{host}/{job['worker_id']}") for host, of in record.hosts.items() for job in of.jobs}
    for name, ledger in _ledgers(record):
        rows = Counter(
            (row["task_id"], row["target_id"], row["action"]) for row in ledger.audit if row["supervisor_id"] == name
        )
        for job in ledger.jobs:
            count = rows[job["task_id"], job["worker_id"], job["handler"].upper()]
            ended_elsewhere = name == HUB and (job["task_id"], job["worker_id"]) in at_hosts
            if count != (0 if ended_elsewhere else 1):
                yield f"{name} has {count} audit rows of {_name(job)}"


def every_card_ends(record: FleetRecord) -> Iterator[str]:
    """Each command has one message, which says how it ended on each of its workers."""
    cards = defaultdict(list)
    for message in record.messages:
        if not message.in_thread:
            cards[message.subject].append(message.text)
    by_command = defaultdict(list)
    for job in record.hub.jobs:
        by_command[job["task_id"]].append(job)
    for task_id, jobs in by_command.items():
        texts = cards[task_id]
        if len(texts) != 1:
            yield f"{_name(jobs[0])} has {len(texts)} messages"
            continue
        open_signs = [sign for sign in UNFINISHED if sign in texts[0]]
        if open_signs:
            yield f"the message of {_name(jobs[0])} isn't final: {texts[0]}"
        lines = texts[0].splitlines()
        for job in jobs:
            told = " ".join(line for line in lines if job["worker_id"] in line or len(jobs) == 1)
            if not any(word in told for word in _words(job)):
                yield f"the message of {_name(job)} doesn't say “{_words(job)[0]}”: {texts[0]}"


def no_message_is_doubled(record: FleetRecord) -> Iterator[str]:
    """No command or alert has two messages, or the same reply twice in its thread."""
    named = [each for each in record.messages if each.subject]
    count = Counter((each.subject, each.text if each.in_thread else "") for each in named)
    yield from (f"{subject} has {number} messages {text}" for (subject, text), number in count.items() if number > 1)


def alerts_open_and_close_once(record: FleetRecord) -> Iterator[str]:
    """Each alert that people were notified of has a message and a fault of its own as its cause, and is closed."""
    if record.faults is None:
        return
    told = {message.subject for message in record.messages}
    left = defaultdict[tuple[str, str], list[Fault]](lambda: list(record.faults or ()))
    for alert in record.hub.alerts:
        name = f"the alert about {alert['target_id']} ({alert['reason']})"
        if alert["state"] != AlertState.CLOSED or alert["closed_at"] is None:
            yield f"{name} is {alert['state']}"
            continue
        if alert["told_at"] is None or alert["parent_id"]:
            continue
        if alert["alert_id"] not in told and alert["condition"] != Condition.DEAF:  # which has a notice of its own
            yield f"{name} has no message"
        possible = left[alert["target_id"], alert["condition"]]
        cause = next((fault for fault in possible if _explains(fault, alert)), None)
        if cause is None:
            yield f"{name} from {alert['opened_at']} to {alert['closed_at']} has no cause"
        else:
            possible.remove(cause)


RULES: Mapping[str, Callable[[FleetRecord], Iterable[str]]] = {
    rule.__name__.replace("_", " "): rule
    for rule in (
        nothing_is_lost,
        nothing_is_doubled,
        everything_ends,
        hub_has_the_rows_of_its_hosts,
        order_is_kept,
        effects_happen_once,
        audit_chains_are_whole,
        every_end_is_audited_once,
        every_card_ends,
        no_message_is_doubled,
        alerts_open_and_close_once,
    )
}


def _explains(fault: Fault, alert: Row) -> bool:
    """True for a fault of the alert's host or server at that time."""
    same = fault.target == alert["target_id"].partition("/")[0]
    return bool(same and fault.begun <= alert["closed_at"] and alert["opened_at"] <= fault.ended)


def _ledgers(record: FleetRecord) -> list[tuple[str, LedgerRecord]]:
    return [(HUB, record.hub), *record.hosts.items()]


def _own_words(error: str | None, host: str, ledger: LedgerRecord) -> str:
    """An error in the hub's words, in which workers have addresses, as their host has it."""
    words = error or ""
    for worker in {job["worker_id"] for job in ledger.jobs}:
        words = words.replace(f"{host}/{worker}", worker)
    return words


def _name(job: Row) -> str:
    return f"{job['handler']} of {job['worker_id']} ({job['label']})"


def _passed_over(job: Row) -> bool:
    """True for a job that was never begun, because its command failed on an earlier worker."""
    return NOT_BEGUN in (job["details_json"] or "")


def _ids(jobs: Iterable[Row], tier: int) -> list[str]:
    """The ids of the commands of this tier, each once."""
    return list(dict.fromkeys(job["task_id"] for job in jobs if job["tier"] == tier))


def _out_of_order(host: str, sent: Sequence[str], filed: Sequence[str]) -> Iterator[str]:
    if sent != filed:
        places = [index for index, pair in enumerate(zip(sent, filed, strict=False)) if pair[0] != pair[1]]
        first = places[0] if places else min(len(sent), len(filed))
        yield f"{host} filed {filed[first : first + 3]} where {sent[first : first + 3]} was next"


def _broken(owner: str, chain: Sequence[Row]) -> Iterator[str]:
    if chain and (chain[0]["audit_id"], chain[0]["previous_hash"]) != (1, GENESIS):
        yield f"the trail of {owner} begins with row {chain[0]['audit_id']}"
    for row in chain:
        if damage := damage_of(row):
            yield f"row {row['audit_id']} of {owner} is damaged: {damage}"
    for before, after in pairwise(chain):
        if (after["audit_id"], after["previous_hash"]) != (before["audit_id"] + 1, before["hash"]):
            yield f"row {after['audit_id']} of {owner} doesn't follow row {before['audit_id']}"


def _words(job: Row) -> tuple[str, ...]:
    """Words of which one stands on a card for this end."""
    if job["state"] == "interrupted":
        return ("interrupted",)
    if job["success"]:
        return ("restarted", "paused", "resumed", "written", "done", "nothing to do", "running")
    if _passed_over(job):
        return ("not started",)
    if TOO_LATE in str(job["error"]):
        return (TOO_LATE,)
    return ("failed", "paused during the restart")
