"""Commands that read and answer, on a server with a Worker."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from dex_agents_dex import AgentSessionClient, WorkerFailed
from dex_agents_dex.testing import wait_for_agent_snapshot
from dex_agents_model import AgentSnapshot

from . import agent
from .conftest import Bench, dex_agents, wait_for_end

_ASKED = "turn-1.call-1"


@pytest.fixture
def asking(served: Bench, session_id: str) -> str:
    """A session that waits for a person."""

    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(session_id, "note this")
        await wait_for_agent_snapshot(
            sessions,
            session_id,
            lambda snapshot: snapshot.pending_interrupts,
            description="a question",
        )

    served.on_sessions(begin)
    return session_id


@pytest.fixture
def running(served: Bench, session_id: str) -> str:
    """A session whose tool runs, until its gate is released."""

    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(session_id, "wait here")
        await served.gate(session_id).wait_until_reached()

    served.on_sessions(begin)
    return session_id


def _answer(bench: Bench, session_id: str, *, turn_count: int = 1) -> str:
    """What the agent said last, when that many turns have ended."""

    async def read(sessions: AgentSessionClient) -> str:
        snapshot = await wait_for_end(sessions, session_id, turn_count=turn_count)
        return snapshot.messages[-1].text or ""

    return bench.on_sessions(read)


# --- reading ---------------------------------------------------------------------------------


def test_show__prints_what_was_said_and_the_steps(served: Bench, ended: str) -> None:
    lines = [line.rstrip() for line in served.run("show", ended).stdout.splitlines()]

    assert lines[0] == f"{ended}  Obedient  waiting for user message"
    assert lines[1].endswith("1 turn, 1 model call, 10 tokens in, 2 out")
    assert lines[3:6] == ["turn-1", "> hello", "● You said hello."]
    steps = [line.split()[:3] for line in lines[lines.index("Steps that have ended") + 2 :]]
    assert ["RunModel-1", "execute", "1"] in steps


def test_show__as_json_has_the_snapshot_and_each_step_with_attempts_and_times(
    served: Bench, ended: str
) -> None:
    shown = served.read("show", ended)

    assert [m["text"] for m in shown["snapshot"]["messages"]] == ["hello", "You said hello."]
    (model_step,) = (step for step in shown["steps"] if step["step_type"] == "RunModel")
    assert (model_step["method"], model_step["attempts"]) == ("execute", 1)
    assert timedelta(seconds=model_step["lasted_seconds"]) > timedelta(0)


def test_show__prints_the_question_and_how_to_answer(served: Bench, asking: str) -> None:
    printed = served.run("show", asking).stdout

    command = f"  dex-agents approve {asking} {_ASKED} {' '.join(served.server)}"
    assert f'? note {{"text": "note this"}}\n{command}\n' in printed


def test_question__prints_the_arguments_whole_that_show_shortens(
    served: Bench, session_id: str
) -> None:
    said = f"note {'long ' * 1_000}"

    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(session_id, said)
        await wait_for_agent_snapshot(
            sessions, session_id, lambda s: s.pending_interrupts, description="a question"
        )

    served.on_sessions(begin)
    arguments = json.dumps({"text": said})

    shown = served.run("show", session_id).stdout
    assert arguments not in shown
    assert "shortened: `dex-agents question` prints all of it" in shown
    assert served.run("question", session_id).stdout == f"? note {arguments}\n"
    assert served.read("question", session_id, _ASKED)["arguments"] == arguments


def test_question__without_one_that_waits_has_an_exit_code_of_its_own(
    served: Bench, ended: str
) -> None:
    result = served.run("question", ended)

    assert (result.exit_code, result.stderr) == (
        4,
        f"error: no question waits in session '{ended}'\n",
    )


def test_sessions__of_a_status_are_found_by_the_index_of_the_server(
    served: Bench, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, closed = f"{ended}-asking", f"{ended}-closed"

    async def begin(sessions: AgentSessionClient) -> None:
        for session_id in (asking, closed):
            await sessions.start_session(session_id, "note this")
            await wait_for_agent_snapshot(
                sessions, session_id, lambda s: s.pending_interrupts, description="a question"
            )
        await sessions.close_session(closed)

    served.on_sessions(begin)
    read: list[str] = []
    get_agent_snapshot = AgentSessionClient.get_agent_snapshot

    async def noted(sessions: AgentSessionClient, session_id: str) -> AgentSnapshot:
        read.append(session_id)
        return await get_agent_snapshot(sessions, session_id)

    monkeypatch.setattr(AgentSessionClient, "get_agent_snapshot", noted)
    listed = {
        status: {
            each["session_id"]: each["status"]
            for each in served.read("sessions", "--status", status, "--limit", "1000")
        }
        for status in ("waiting_for_approval", "waiting_for_user_message", "running_tools")
    }
    told_of_all = len(read)

    assert asking in listed["waiting_for_approval"]
    assert ended in listed["waiting_for_user_message"]
    assert {*listed["waiting_for_approval"].values()} == {"waiting_for_approval"}
    assert {*listed["waiting_for_user_message"].values()} == {"waiting_for_user_message"}
    assert asking not in listed["running_tools"]
    assert told_of_all == sum(map(len, listed.values()))  # no other session was even asked
    assert served.read("sessions", "--status", "closed", "--limit", "1000")[0]["status"] == "closed"


def test_sessions__of_an_agent_with_a_quote_in_its_name_can_be_asked_for(served: Bench) -> None:
    assert served.read("sessions", "--agent", "Nobody's' OR '1") == []


def test_sessions__lists_by_agent_and_to_a_limit(served: Bench, ended: str) -> None:
    assert served.read("sessions", "--agent", "Nobody") == []
    assert len(served.read("sessions", "--agent", agent.FLOW_TYPE, "--limit", "1")) == 1
    assert served.run("sessions", "--agent", "Nobody").stdout == "no sessions\n"


def test_sessions__names_those_that_cannot_be_read(
    served: Bench, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreadable(sessions: AgentSessionClient, session_id: str) -> AgentSnapshot:
        raise WorkerFailed(f"session {session_id!r} got no answer")

    monkeypatch.setattr(AgentSessionClient, "get_agent_snapshot", unreadable)
    result = served.run("sessions", "--status", "waiting_for_user_message", "--limit", "1000")

    assert (result.exit_code, result.stdout) == (
        0,
        "no sessions of status waiting_for_user_message\n",
    )
    assert "left out, no session or one that cannot be read: " in result.stderr


def test_messages__prints_one_a_line(served: Bench, ended: str) -> None:
    result = served.run("messages", ended, "--after", "1", "--json")

    (message,) = map(json.loads, result.stdout.splitlines())
    assert (message["sequence"], message["text"]) == (2, "You said hello.")
    assert served.run("messages", ended).stdout == "> hello\n● You said hello.\n"


def test_events__end_with_the_newest_when_nobody_follows(served: Bench, ended: str) -> None:
    printed = served.run("events", ended, "--no-follow", "--json").stdout.splitlines()
    told = [json.loads(line)["type"] for line in printed]

    assert (told[0], told[-1]) == ("turn_started", "turn_completed")
    assert "RunModel-1 text_delta 'hello. '" in served.run("events", ended, "--no-follow").stdout


# --- answering -------------------------------------------------------------------------------


def test_approve__lets_the_call_run_with_other_arguments(served: Bench, asking: str) -> None:
    edited = '{"text": "better"}'
    result = served.run("approve", asking, _ASKED, "--edit", edited, "--by", "ann")

    assert (result.exit_code, result.stdout) == (0, f"approved note {edited}\n")
    assert _answer(served, asking).endswith("note done: better.")
    (record,) = served.read("show", asking)["approvals"]
    assert (record["decision"], record["resolved_by"]) == ("approved", "ann")


def test_approve__lets_nothing_run_that_is_not_named(served: Bench, asking: str) -> None:
    unnamed = served.run("approve", asking)

    told = f"error: name the question that you approve; {_ASKED} (note) waits\n"
    assert (unnamed.exit_code, unnamed.stderr) == (2, told)
    (waiting,) = served.read("show", asking)["snapshot"]["pending_interrupts"]
    assert waiting["interrupt_id"] == _ASKED


def test_reject__tells_the_model_why(served: Bench, asking: str) -> None:
    result = served.run("reject", asking, "--message", "not today", "--reason", "it is late")

    assert result.exit_code == 0
    assert _answer(served, asking) == "not today."
    (record,) = served.read("show", asking)["approvals"]
    assert (record["decision"], record["reason"]) == ("rejected", "it is late")


def test_show__prints_what_an_approver_said_as_it_is(served: Bench, asking: str) -> None:
    said = "[/x] :bomb: [red]no[/red]"
    assert served.run("reject", asking, "--by", said, "--reason", said).exit_code == 0
    _answer(served, asking)

    assert served.run("show", asking).stdout.count(said) == 2


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        ('{"a": NaN}', "that is no JSON: NaN is no number of JSON"),
        (
            '{"a":' * 20_000 + "1" + "}" * 20_000,
            "that is no JSON: the JSON text is nested too deep",
        ),
        ('{"a": "\udce9"}', "that is no text in UTF-8"),
        (f'{{"a": "{"x" * 262_144}"}}', "that takes 262,153 bytes; at most 262,144 do"),
        ("[1]", "that is no JSON object but [1]"),
    ],
)
def test_approve__refuses_arguments_that_no_session_takes_before_one_is_asked(
    edited: str, told: str
) -> None:
    result = dex_agents("approve", "s", "--edit", edited, "--server", "nowhere.invalid:1")

    last = result.stderr.splitlines()[-1]
    assert (result.exit_code, last) == (2, f"Error: Invalid value for '--edit': {told}")


def test_approve__of_what_does_not_wait_has_an_exit_code_of_its_own(
    served: Bench, ended: str
) -> None:
    unnamed, named = served.run("approve", ended), served.run("approve", ended, "turn-1.x")

    assert (unnamed.exit_code, unnamed.stderr) == (
        4,
        f"error: no question waits in session {ended!r}\n",
    )
    assert named.exit_code == 4


def test_send__begins_a_turn(served: Bench, ended: str) -> None:
    assert served.read("send", ended, "and now") == {"accepted": True}
    assert _answer(served, ended, turn_count=2) == "You said and now."


def test_send__of_nothing_is_refused(served: Bench, ended: str) -> None:
    result = served.run("send", ended, " ", "--json")

    assert (result.exit_code, json.loads(result.stdout)) == (1, {"accepted": False})


def test_queue__shows_what_waits_and_withdraw_takes_it_back(served: Bench, running: str) -> None:
    served.run("send", running, "later")
    (queued,) = served.read("queue", running)
    assert queued["text"] == "later"

    assert served.run("withdraw", running, queued["message_id"]).stdout == "withdrawn\n"
    assert served.read("queue", running) == []
    assert served.run("withdraw", running, queued["message_id"]).exit_code == 1


def test_steer__is_heard_by_the_turn_that_runs(served: Bench, running: str) -> None:
    assert served.run("steer", running, "hurry").stdout == "taken\n"
    served.gate(running).release()

    assert _answer(served, running) == "wait done: wait here. Meanwhile: hurry."


def test_cancel__stops_the_turn_once(served: Bench, running: str) -> None:
    assert served.run("cancel", running, "--turn", "turn-9").exit_code == 1
    assert served.run("cancel", running).stdout == "cancelling\n"
    _answer(served, running)
    assert served.read("show", running)["snapshot"]["state"]["last_turn"] == {
        "outcome": "cancelled"
    }
    assert served.run("cancel", running).stderr == "error: no turn runs\n"
