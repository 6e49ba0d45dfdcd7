"""Habits of single frameworks: what of their spans is a message, a call or an agent, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.event import Content
from tracline.schemas.sessions.claims import claims_of
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from .dialect_spans import step_of, words

OPENINFERENCE = "openinference.instrumentation."
AGENTS = OPENINFERENCE + "openai_agents"
SMOLAGENTS = OPENINFERENCE + "smolagents"
LANGCHAIN = OPENINFERENCE + "langchain"
LLAMA_INDEX = OPENINFERENCE + "llama_index"
LLM = {"openinference.span.kind": "LLM"}
INPUT, OUTPUT = "llm.input_messages", "llm.output_messages"
CALLING = (
    "Calling tools:\n[{'id': 'c1', 'type': 'function', 'function': {'name': 'look', 'arguments': {'id': 1}}}]"
)


def message(place: int, **fields: str) -> dict[str, str]:
    """One flattened message of the input; `__` in a name is a dot."""
    return {f"{INPUT}.{place}.message.{name.replace('__', '.')}": text for name, text in fields.items()}


def call(prefix: str, number: int, name: str, **more: str) -> dict[str, str]:
    """One flattened call."""
    place = f"{prefix}.message.tool_calls.{number}.tool_call."
    return {f"{place}id": f"c{number}", f"{place}function.name": name} | {
        f"{place}function.{key}": value for key, value in more.items()
    }


# OpenAI's Agents SDK


def test_the_agents_sdk_counts_calls_over_all_messages() -> None:
    """A message whose first call has the number 1 has lost nothing, and no arguments are empty ones."""
    told = {
        **message(0, role="user", content="Hi"),
        **message(1, role="assistant"),
        **call(f"{INPUT}.1", 1, "look", arguments='{"id": 1}'),
        **call(f"{INPUT}.1", 2, "transfer"),
    }
    step = step_of({**LLM, **told, f"{OUTPUT}.0.message.role": "assistant"}, scope=AGENTS)
    assert words(step.input) == [
        ("user", "Hi", [], []),
        ("assistant", None, [("c1", "look", '{"id": 1}'), ("c2", "transfer", "{}")], []),
    ]
    other = step_of({**LLM, **told, f"{OUTPUT}.0.message.role": "assistant"})
    assert other.input is not None
    assert other.input[1].calls[1].args is None


def test_a_list_of_responses_has_the_messages_in_it() -> None:
    """A streamed answer is dumped as the response that it came to; its wrapping is no message."""
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Bye!"}]}
    dump = [{"id": "__fake_id__", "object": "response", "instructions": "SECRET", "output": [item]}]
    told = {"output.value": json.dumps(dump), "output.mime_type": "application/json"}
    assert words(step_of({**LLM, **told}, scope=AGENTS).output) == [("assistant", "Bye!", [], [])]


def test_a_programs_json_is_no_model_answer() -> None:
    """A dump without messages that can be read is absent; text without a type is the model's."""
    dump = json.dumps({"messages": ["ChatMessage(role=system, text='You are the desk.')"], "tools": []})
    step = step_of({**LLM, "output.value": dump, "output.mime_type": "application/json"})
    assert (step.output, step.content) == (None, Content.ABSENT)
    assert words(step_of({**LLM, "output.value": '{"ok": true}'}).output) == [
        ("assistant", '{"ok": true}', [], [])
    ]


def test_a_hand_off_is_no_run_of_a_tool() -> None:
    """The model called a tool for it; its span, which names none, adds nothing."""
    told = {"openinference.span.kind": "TOOL", "input.value": "desk", "output.value": "refunds"}
    assert step_of(told, name="handoff to refunds", scope=AGENTS).role is SpanRole.OTHER
    assert step_of({**told, "tool.name": "look"}, name="look", scope=AGENTS).role is SpanRole.TOOL


def test_the_adks_merged_tools_are_no_tool() -> None:
    """The span puts the answers of several runs into one."""
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    assert step_of(told).role is SpanRole.OTHER


# smolagents, AutoGen, LangChain, LlamaIndex


def test_smolagents_writes_calls_and_results_as_text() -> None:
    """The customer gets none of these; the one answer is that of the one call before it."""
    told = {
        **message(0, role="user", content="New task:\nHi"),
        **message(1, role="tool-call", content=CALLING),
        **message(2, role="tool-response", content="Observation:\nuser_1"),
    }
    assert words(step_of({**LLM, **told}, scope=SMOLAGENTS).input) == [
        ("user", "New task:\nHi", [], []),
        ("assistant", None, [("c1", "look", '{"id":1}')], []),
        ("tool", None, [], [("c1", None, "user_1")]),
    ]


@pytest.mark.parametrize("text", ["Error:\nno such user\nNow let's retry", "user_1"])
def test_smolagents_text_of_several_calls_is_no_result_of_one(text: str) -> None:
    """That a call was answered is known, and not with what."""
    told = {**message(0, role="tool-call", content=CALLING), **message(1, role="tool-response", content=text)}
    step = step_of({**LLM, **told}, scope=SMOLAGENTS)
    assert step.input is not None
    (result,) = step.input[1].results
    assert (result.call_id, result.result, result.content) == ("c1", None, Content.ABSENT)


def test_an_error_of_a_step_that_smolagents_forgets_is_no_result_and_no_repeat() -> None:
    """The history leaves out the calls of a step that failed: the model's next call is another one."""
    told = {**message(0, role="tool-call", content=CALLING), **message(1, role="tool-response", content="ok")}
    failed = {**told, **message(2, role="tool-response", content="Error:\nno such user")}
    said = {f"{OUTPUT}.0.message.role": "assistant", f"{OUTPUT}.0.message.content": "Hi"}
    steps = [step_of({**LLM, **one, **said}, scope=SMOLAGENTS) for one in (told, failed)]
    first, second = (claims_of(step, 1, 2)[0] for step in steps)
    assert [one.kind for one in first] == [one.kind for one in second]
    assert first[-1].key != second[-1].key
    assert first[-2].key == second[-2].key


def test_calls_of_smolagents_that_cannot_be_read_are_absent() -> None:
    """Python's notation is read as data alone, and is no words of the agent's."""
    told = message(0, role="tool-call", content="Calling tools:\n__import__('os')")
    step = step_of({**LLM, **told}, scope=SMOLAGENTS)
    assert step.input is not None
    assert (words(step.input), step.input[0].content) == ([("assistant", None, [], [])], Content.ABSENT)


def test_results_of_autogens_functions_stand_beside_the_message() -> None:
    """Each is JSON in a list of its own, with its flag of an error."""
    told = {"name": "look", "content": "no such user", "call_id": "c1", "is_error": True}
    attributes = {**LLM, **message(0, role="function"), f"{INPUT}.0.function.0": json.dumps(told)}
    step = step_of(attributes)
    assert step.input is not None
    (result,) = step.input[0].results
    assert (result.call_id, result.tool, result.result, result.error) == (
        "c1", "look", "no such user", "tool_error",
    )  # fmt: skip


def test_anthropics_calls_stand_in_two_places() -> None:
    """The part of the content has the call beside its type, and the list of calls has it again."""
    part = f"{OUTPUT}.0.message.contents.0."
    told = {
        f"{OUTPUT}.0.message.role": "assistant",
        **call(f"{OUTPUT}.0", 1, "look", arguments="{}"),
        f"{part}message_content.type": "tool_use",
        f"{part}tool_call.id": "c1",
        f"{part}tool_call.function.name": "look",
        f"{part}tool_call.function.arguments": "{}",
    }
    step = step_of({**LLM, **told})
    assert words(step.output) == [("assistant", None, [("c1", "look", "{}")], [])]


def test_a_tool_with_agent_in_its_name_is_no_agent() -> None:
    """LangChain's integration goes by names; the agent of a graph stands in the metadata."""
    metadata = {"metadata": json.dumps({"lc_agent_name": "desk", "thread_id": "s1"})}
    tool = {"openinference.span.kind": "AGENT", "tool.name": "ask_agent", "input.value": '{"q": 1, "n": 2}'}
    step = step_of({**tool, **metadata}, scope=LANGCHAIN)
    assert (step.role, step.agent, step.session) == (SpanRole.TOOL, "desk", "s1")
    step = step_of({"openinference.span.kind": "AGENT", **metadata}, scope=LANGCHAIN)
    assert (step.role, step.agent) == (SpanRole.AGENT, "desk")
    assert step_of({**LLM, "metadata": "{thread_id"}).session is None


@pytest.mark.parametrize(
    ("method", "part"), [("astream_chat", SpanRole.CHAT), ("_prepare_chat_with_tools", SpanRole.OTHER)]
)
def test_of_llama_indexs_methods_some_call_a_model(method: str, part: SpanRole) -> None:
    """The others prepare a call, and would repeat the prompt."""
    told = {**LLM, "input.value": '{"chat_history": []}', "output.value": '{"messages": []}'}
    assert step_of(told, name=f"OpenAI.{method}", scope=LLAMA_INDEX).role is part
    assert step_of(told, name=f"OpenAI.{method}").role is SpanRole.CHAT


# Google's ADK, LiteLLM


def chunk(text: str, reason: str) -> dict[str, Any]:
    """One message of an answer."""
    return {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": reason}


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ([chunk("ha", ""), chunk("ha", ""), chunk("haha", "stop")], ["haha"]),
        ([chunk("ha", ""), chunk("haha", "")], ["hahaha"]),
        ([chunk("It is ", ""), chunk("late", "stop")], ["It is late"]),
        ([chunk("one", "stop"), chunk("two", "stop")], ["one", "two"]),
    ],
)
def test_chunks_of_a_streamed_answer_are_one_message(chunks: list[dict[str, Any]], said: list[str]) -> None:
    """They have an empty reason to finish; the message behind them may hold the whole again."""
    told = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(chunks)}
    step = step_of(told)
    assert step.output is not None
    assert [one.text for one in step.output] == said


def called(name: str, args: dict[str, Any] | None, reason: str) -> dict[str, Any]:
    """One message of an answer that calls a tool."""
    call = {"type": "tool_call", "id": name, "name": "look", "arguments": args}
    return {"role": "assistant", "parts": [call], "finish_reason": reason}


def test_a_call_of_a_streamed_answer_is_the_one_that_is_whole() -> None:
    """Chunks name it before its arguments are there; calls with other ids are others."""
    chunks = [
        called("1", None, ""),
        called("1", None, ""),
        called("2", {"id": 2}, ""),
        called("1", {"id": 1}, ""),
    ]
    told = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(chunks)}
    assert words(step_of(told).output) == [
        ("assistant", None, [("2", "look", '{"id":2}'), ("1", "look", '{"id":1}')], [])
    ]


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ('{"result": "Error: no such user"}', "tool_error"),
        ('{"result": "user_1"}', None),
        ('{"result": "Error: no such user", "id": 1}', None),
        ('{"result": {"text": "Error"}}', None),
    ],
)
def test_adk_puts_a_tools_text_into_an_object(result: str, error: str | None) -> None:
    """That it failed is in its words, and the object stays as it is."""
    genai = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    step = step_of({**genai, "gen_ai.tool.call.result": result}, scope="gcp.vertex.agent")
    assert step.result == ToolResult(None, "look", result, error)
    assert step_of({**genai, "gen_ai.tool.call.result": result}).result == ToolResult(None, "look", result)
    answer = json.dumps({"id": "c", "name": "look", "response": json.loads(result)})
    told = {"openinference.span.kind": "TOOL", "tool.name": "look", "output.value": answer}
    found = step_of(told, scope="openinference.instrumentation.google_adk").result
    assert found is not None
    assert (found.call_id, found.error) == ("c", error)


def test_litellm_flattens_calls_where_choices_belong() -> None:
    """All of them are one answer's; its text stands in OpenTelemetry's messages."""
    parts = [{"type": "text", "content": "Let me look."}]
    told = {
        "llm.request.type": "completion",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        "gen_ai.completion.0.function_call.name": "look",
        "gen_ai.completion.0.function_call.arguments": '{"id": 1}',
        "gen_ai.completion.1.function_call.name": "user",
        "gen_ai.completion.1.function_call.arguments": "{}",
    }
    step = step_of(told, scope="litellm")
    assert words(step.output) == [
        ("assistant", "Let me look.", [(None, "look", '{"id": 1}'), (None, "user", "{}")], [])
    ]
    lost = step_of(told, scope="litellm", dropped=1)
    assert (lost.output, lost.content) == (None, Content.ABSENT)


# LangSmith

TOOL_MESSAGE = {
    "content": "user_1",
    "type": "tool",
    "name": "look",
    "tool_call_id": "c1",
    "status": "success",
}


def langsmith(kind: str, given: Any, back: Any, **more: str) -> dict[str, Any]:
    """The attributes that LangSmith's SDK gives a run of a kind."""
    operation = {"llm": "chat", "tool": "execute_tool"}.get(kind, kind)
    told = {"gen_ai.prompt": json.dumps(given), "gen_ai.completion": json.dumps(back)}
    return {"langsmith.span.kind": kind, "gen_ai.operation.name": operation, **told, **more}


@pytest.mark.parametrize("back", [{"output": TOOL_MESSAGE}, {"output": "user_1"}])
def test_langsmiths_tools_have_arguments_and_result(back: Any) -> None:
    """In the attributes that hold a model's prompt and completion; LangChain's tools return a message."""
    named = {
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "langsmith.metadata.lc_agent_name": "desk",
    }
    step = step_of(langsmith("tool", {"id": 1}, back, **named))
    assert (step.role, step.agent, step.call) == (SpanRole.TOOL, "desk", ToolCall("c1", "look", '{"id": 1}'))
    assert step.result is not None
    assert (step.result.tool, step.result.result) == ("look", "user_1")
    other = step_of(langsmith("tool", {"id": 1}, {"output": "x", "ok": True}, **named)).result
    assert other == ToolResult(None, "look", '{"output": "x", "ok": true}')


def test_langsmiths_chains_are_no_models() -> None:
    """They hold the messages of models and tools inside them, and calls as tools get them."""
    call = {"name": "look", "args": {"id": 1}, "id": "c1", "type": "tool_call"}
    for kind in ("chain", "retriever", "prompt", "parser", "embedding"):
        step = step_of(langsmith(kind, {"input": [call]}, {"messages": [TOOL_MESSAGE]}))
        assert (step.role, step.input, step.output) == (SpanRole.OTHER, None, None)
    made = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}
    asked = {"messages": [[{**made, "kwargs": {"content": "Hi", "type": "human"}}]]}
    model = step_of(langsmith("llm", asked, {"generations": [[{"text": "Hello", "generation_info": None}]]}))
    assert (model.role, words(model.input)) == (SpanRole.CHAT, [("user", "Hi", [], [])])
    assert words(model.output) == [("assistant", "Hello", [], [])]
