"""Each example runs as it is, with a Worker and an engine, and does what it says."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import httpx2
import pytest
import pytest_asyncio

from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import wait_until
from dex_agents_dex.testing.private_engine import PrivateEngine

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server_address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """One engine for all examples."""
    directory = tmp_path_factory.mktemp("engine")
    engine = PrivateEngine(directory / "data", log_path=directory / "engine.log")
    try:
        await engine.start()
        yield engine.server_address
    finally:
        engine.kill()


@pytest.fixture(autouse=True)
def on_that_server(server_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_ADDRESS_VARIABLE, server_address)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        (
            "research",
            (
                "Our notes on tides: ask a sailor. The moon raises the sea twice a day."
                " Some whales cross an ocean to feed where the tide brings krill.\n"
            ),
        ),
        ("multi_agent", "guten Morgen und gute Nacht\n"),
        (
            "own_runner",
            "Done: refunded order 7 under clerk-session/turn-1/call-2.\n",
        ),
        ("structured_output", "order 7: 3 days late\n"),
    ],
)
async def test_example__prints_what_its_agent_found(
    name: str, printed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    await example(name).main()

    assert capfd.readouterr().out == printed


async def test_approvals_api__lets_a_person_answer_after_the_service_was_started_anew() -> None:
    app = example("approvals_api").app

    async def show() -> dict[str, list[object]]:
        shown: dict[str, list[object]] = (await web.get("/sessions/s-7")).json()
        return shown

    async def question() -> list[object]:
        return (await show())["questions"]

    async def answer() -> list[object]:
        return (await show())["said"][1:]

    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://desk") as web:
        async with app.router.lifespan_context(app):
            started = await web.put("/sessions/s-7", json={"text": "Refund order 7."})
            asked = await wait_until("a question", question)
        async with app.router.lifespan_context(app):
            approvals = "/sessions/s-7/approvals"
            missing = await web.get("/sessions/none")
            nonsense = await web.post(f"{approvals}/x", json={"approved": True, "by": "ada"})
            approval = {"approved": True, "by": "ada"}
            counted = await web.post(f"{approvals}/turn-1.call-1", json=approval)
            late = await web.post(f"{approvals}/turn-1.call-1", json=approval)
            said = await wait_until("an answer", answer)

    assert asked == [
        {"id": "turn-1.call-1", "tool": "refund_order", "arguments": '{"order_id": "7"}'}
    ]
    assert said == ["Refunded order 7 under s-7/turn-1/call-1."]
    assert [reply.status_code for reply in (started, missing, nonsense, counted, late)] == [
        *(201, 404, 422, 200, 409),
    ]
