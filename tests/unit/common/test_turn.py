"""The turn: one has it, and who asked in vain is called when it is free."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.common.threads import CallbackLock


def test_one_has_it_and_the_others_are_called_once_when_it_is_given_back() -> None:
    turn, called = CallbackLock(), list[str]()
    south, west = (lambda: called.append("South")), (lambda: called.append("West"))
    assert turn.acquire(lambda: called.append("North"))
    assert [turn.acquire(south), turn.acquire(west), turn.acquire(south)] == [False, False, False]
    assert called == []
    turn.release()
    assert called == ["South", "West"]
    assert turn.acquire(south)
    turn.release()
    assert called == ["South", "West"], "nobody asked since"


def test_who_takes_it_as_it_is_called_has_it_and_the_next_one_waits_on() -> None:
    turn, took = CallbackLock(), list[str]()

    def asks(name: str) -> Callable[[], None]:
        def ask() -> None:
            if turn.acquire(ask):
                took.append(name)

        return ask

    for name in ("North", "South", "West"):
        asks(name)()
    for _ in range(3):
        turn.release()
    assert took == ["North", "South", "West"]


@given(st.lists(st.integers(0, 4), max_size=60))
def test_in_any_order_one_has_it_at_a_time_and_all_who_ask_get_it(order: list[int]) -> None:
    turn = CallbackLock()
    holder: list[int] = []
    wanting: set[int] = set()
    asks: dict[int, Callable[[], None]] = {}

    def asking(who: int) -> Callable[[], None]:
        def ask() -> None:
            if who in wanting and turn.acquire(asks[who]):
                holder.append(who)
                wanting.discard(who)

        return ask

    for who in range(5):
        asks[who] = asking(who)
    for who in order:
        if holder and holder[0] == who:
            holder.pop()
            turn.release()
        elif who not in wanting:
            wanting.add(who)
            asks[who]()
        assert len(holder) <= 1
        assert holder or not wanting, "it does not lie about while somebody wants it"
    while holder:
        holder.pop()
        turn.release()
    assert not wanting
