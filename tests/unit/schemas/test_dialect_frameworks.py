"""Habits of single frameworks: what of their spans is a message, a call or an agent, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tracline.schemas.claims.span_claims import claims_of
from tracline.schemas.event import Content
from tracline.schemas.span_content import SpanRole, ToolCall, ToolResult

from ...support.dialect_spans import content_of, words

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
    attributes = {
        **message(0, role="user", content="Hi"),
        **message(1, role="assistant"),
        **call(f"{INPUT}.1", 1, "look", arguments='{"id": 1}'),
        **call(f"{INPUT}.1", 2, "transfer"),
    }
    content = content_of({**LLM, **attributes, f"{OUTPUT}.0.message.role": "assistant"}, scope=AGENTS)
    assert words(content.input) == [
        ("user", "Hi", [], []),
        ("assistant", None, [("c1", "look", '{"id": 1}'), ("c2", "transfer", "{}")], []),
    ]
    second = content_of({**LLM, **attributes, f"{OUTPUT}.0.message.role": "assistant"})
    assert second.input is not None
    assert second.input[1].calls[1].args is None


def test_a_list_of_responses_has_the_messages_in_it() -> None:
    """A streamed answer is dumped as the response that it came to; its wrapping is no message."""
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Bye!"}]}
    dump = [{"id": "__fake_id__", "object": "response", "instructions": "SECRET", "output": [item]}]
    attributes = {"output.value": json.dumps(dump), "output.mime_type": "application/json"}
    assert words(content_of({**LLM, **attributes}, scope=AGENTS).output) == [("assistant", "Bye!", [], [])]


def test_a_programs_json_is_no_model_answer() -> None:
    """A dump without messages that can be read is absent; text without a type is the model's."""
    dump = json.dumps({"messages": ["ChatMessage(role=system, text='You are the desk.')"], "tools": []})
    content = content_of({**LLM, "output.value": dump, "output.mime_type": "application/json"})
    assert (content.output, content.content) == (None, Content.ABSENT)
    assert words(content_of({**LLM, "output.value": '{"ok": true}'}).output) == [
        ("assistant", '{"ok": true}', [], [])
    ]


def test_a_hand_off_is_no_run_of_a_tool() -> None:
    """The model called a tool for it; its span, which names none, adds nothing."""
    attributes = {"openinference.span.kind": "TOOL", "input.value": "desk", "output.value": "refunds"}
    assert content_of(attributes, name="handoff to refunds", scope=AGENTS).role is SpanRole.OTHER
    assert content_of({**attributes, "tool.name": "look"}, name="look", scope=AGENTS).role is SpanRole.TOOL


def test_the_adks_merged_tools_are_no_tool() -> None:
    """The span puts the answers of several runs into one."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    assert content_of(attributes).role is SpanRole.OTHER


# smolagents, AutoGen, LangChain, LlamaIndex


def test_smolagents_writes_calls_and_results_as_text() -> None:
    """The customer gets none of these; the one answer is that of the one call before it."""
    attributes = {
        **message(0, role="user", content="New task:\nHi"),
        **message(1, role="tool-call", content=CALLING),
        **message(2, role="tool-response", content="Observation:\nuser_1"),
    }
    assert words(content_of({**LLM, **attributes}, scope=SMOLAGENTS).input) == [
        ("user", "New task:\nHi", [], []),
        ("assistant", None, [("c1", "look", '{"id":1}')], []),
        ("tool", None, [], [("c1", None, "user_1")]),
    ]


@pytest.mark.parametrize("text", ["Error:\nno such user\nNow let's retry", "user_1"])
def test_smolagents_text_of_several_calls_is_no_result_of_one(text: str) -> None:
    """That a call was answered is known, and not with what."""
    attributes = {
        **message(0, role="tool-call", content=CALLING),
        **message(1, role="tool-response", content=text),
    }
    content = content_of({**LLM, **attributes}, scope=SMOLAGENTS)
    assert content.input is not None
    (result,) = content.input[1].results
    assert (result.call_id, result.result, result.content) == ("c1", None, Content.ABSENT)


def test_an_error_of_a_step_that_smolagents_forgets_is_no_result_and_no_repeat() -> None:
    """The history leaves out the calls of a step that failed: the model's next call is another one."""
    attributes = {
        **message(0, role="tool-call", content=CALLING),
        **message(1, role="tool-response", content="ok"),
    }
    failed = {**attributes, **message(2, role="tool-response", content="Error:\nno such user")}
    answer = {f"{OUTPUT}.0.message.role": "assistant", f"{OUTPUT}.0.message.content": "Hi"}
    steps = [content_of({**LLM, **item, **answer}, scope=SMOLAGENTS) for item in (attributes, failed)]
    first, second = (claims_of(content, 1, 2)[0] for content in steps)
    assert [item.kind for item in first] == [item.kind for item in second]
    assert first[-1].key != second[-1].key
    assert first[-2].key == second[-2].key


def test_calls_of_smolagents_that_cannot_be_read_are_absent() -> None:
    """Python's notation is read as data alone, and is no words of the agent's."""
    attributes = message(0, role="tool-call", content="Calling tools:\n__import__('os')")
    content = content_of({**LLM, **attributes}, scope=SMOLAGENTS)
    assert content.input is not None
    assert (words(content.input), content.input[0].content) == ([("assistant", None, [], [])], Content.ABSENT)


def test_results_of_autogens_functions_stand_beside_the_message() -> None:
    """Each is JSON in a list of its own, with its flag of an error."""
    function = {"name": "look", "content": "no such user", "call_id": "c1", "is_error": True}
    attributes = {**LLM, **message(0, role="function"), f"{INPUT}.0.function.0": json.dumps(function)}
    content = content_of(attributes)
    assert content.input is not None
    (result,) = content.input[0].results
    assert (result.call_id, result.tool, result.result, result.error) == (
        "c1", "look", "no such user", "tool_error",
    )  # fmt: skip


def test_anthropics_calls_stand_in_two_places() -> None:
    """The part of the content has the call beside its type, and the list of calls has it again."""
    part = f"{OUTPUT}.0.message.contents.0."
    attributes = {
        f"{OUTPUT}.0.message.role": "assistant",
        **call(f"{OUTPUT}.0", 1, "look", arguments="{}"),
        f"{part}message_content.type": "tool_use",
        f"{part}tool_call.id": "c1",
        f"{part}tool_call.function.name": "look",
        f"{part}tool_call.function.arguments": "{}",
    }
    content = content_of({**LLM, **attributes})
    assert words(content.output) == [("assistant", None, [("c1", "look", "{}")], [])]


def test_a_tool_with_agent_in_its_name_is_no_agent() -> None:
    """LangChain's integration goes by names; the agent of a graph stands in the metadata."""
    metadata = {"metadata": json.dumps({"lc_agent_name": "desk", "thread_id": "s1"})}
    tool = {"openinference.span.kind": "AGENT", "tool.name": "ask_agent", "input.value": '{"q": 1, "n": 2}'}
    content = content_of({**tool, **metadata}, scope=LANGCHAIN)
    assert (content.role, content.agent, content.session) == (SpanRole.TOOL, "desk", "s1")
    content = content_of({"openinference.span.kind": "AGENT", **metadata}, scope=LANGCHAIN)
    assert (content.role, content.agent) == (SpanRole.AGENT, "desk")
    assert content_of({**LLM, "metadata": "{thread_id"}).session is None


@pytest.mark.parametrize(
    ("method", "part"), [("astream_chat", SpanRole.CHAT), ("_prepare_chat_with_tools", SpanRole.OTHER)]
)
def test_of_llama_indexs_methods_some_call_a_model(method: str, part: SpanRole) -> None:
    """The others prepare a call, and would repeat the prompt."""
    attributes = {**LLM, "input.value": '{"chat_history": []}', "output.value": '{"messages": []}'}
    assert content_of(attributes, name=f"OpenAI.{method}", scope=LLAMA_INDEX).role is part
    assert content_of(attributes, name=f"OpenAI.{method}").role is SpanRole.CHAT


# Google's ADK, LiteLLM


def chunk(text: str, reason: str) -> dict[str, Any]:
    """One message of an answer."""
    return {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": reason}


@pytest.mark.parametrize(
    ("chunks", "texts"),
    [
        ([chunk("ha", ""), chunk("ha", ""), chunk("haha", "stop")], ["haha"]),
        ([chunk("ha", ""), chunk("haha", "")], ["hahaha"]),
        ([chunk("It is ", ""), chunk("late", "stop")], ["It is late"]),
        ([chunk("one", "stop"), chunk("two", "stop")], ["one", "two"]),
    ],
)
def test_chunks_of_a_streamed_answer_are_one_message(chunks: list[dict[str, Any]], texts: list[str]) -> None:
    """They have an empty reason to finish; the message behind them may hold the whole again."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(chunks)}
    content = content_of(attributes)
    assert content.output is not None
    assert [message.text for message in content.output] == texts


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
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(chunks)}
    assert words(content_of(attributes).output) == [
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
    content = content_of({**genai, "gen_ai.tool.call.result": result}, scope="gcp.vertex.agent")
    assert content.result == ToolResult(None, "look", result, error)
    assert content_of({**genai, "gen_ai.tool.call.result": result}).result == ToolResult(None, "look", result)
    answer = json.dumps({"id": "c", "name": "look", "response": json.loads(result)})
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "look", "output.value": answer}
    found = content_of(attributes, scope="openinference.instrumentation.google_adk").result
    assert found is not None
    assert (found.call_id, found.error) == ("c", error)


def test_litellm_flattens_calls_where_choices_belong() -> None:
    """All of them are one answer's; its text stands in OpenTelemetry's messages."""
    parts = [{"type": "text", "content": "Let me look."}]
    attributes = {
        "llm.request.type": "completion",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        "gen_ai.completion.0.function_call.name": "look",
        "gen_ai.completion.0.function_call.arguments": '{"id": 1}',
        "gen_ai.completion.1.function_call.name": "user",
        "gen_ai.completion.1.function_call.arguments": "{}",
    }
    content = content_of(attributes, scope="litellm")
    assert words(content.output) == [
        ("assistant", "Let me look.", [(None, "look", '{"id": 1}'), (None, "user", "{}")], [])
    ]
    lost = content_of(attributes, scope="litellm", dropped=1)
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
    attributes = {"gen_ai.prompt": json.dumps(given), "gen_ai.completion": json.dumps(back)}
    return {"langsmith.span.kind": kind, "gen_ai.operation.name": operation, **attributes, **more}


@pytest.mark.parametrize("back", [{"output": TOOL_MESSAGE}, {"output": "user_1"}])
def test_langsmiths_tools_have_arguments_and_result(back: Any) -> None:
    """In the attributes that hold a model's prompt and completion; LangChain's tools return a message."""
    named = {
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "langsmith.metadata.lc_agent_name": "desk",
    }
    content = content_of(langsmith("tool", {"id": 1}, back, **named))
    assert (content.role, content.agent, content.call) == (
        SpanRole.TOOL,
        "desk",
        ToolCall("c1", "look", '{"id": 1}'),
    )
    assert content.result is not None
    assert (content.result.tool, content.result.result) == ("look", "user_1")
    second = content_of(langsmith("tool", {"id": 1}, {"output": "x", "ok": True}, **named)).result
    assert second == ToolResult("c1", "look", '{"output": "x", "ok": true}')


def test_langsmiths_chains_are_no_models() -> None:
    """They hold the messages of models and tools inside them, and calls as tools get them."""
    call = {"name": "look", "args": {"id": 1}, "id": "c1", "type": "tool_call"}
    for kind in ("chain", "retriever", "prompt", "parser", "embedding"):
        content = content_of(langsmith(kind, {"input": [call]}, {"messages": [TOOL_MESSAGE]}))
        assert (content.role, content.input, content.output) == (SpanRole.OTHER, None, None)
    made = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}
    asked = {"messages": [[{**made, "kwargs": {"content": "Hi", "type": "human"}}]]}
    model = content_of(
        langsmith("llm", asked, {"generations": [[{"text": "Hello", "generation_info": None}]]})
    )
    assert (model.role, words(model.input)) == (SpanRole.CHAT, [("user", "Hi", [], [])])
    assert words(model.output) == [("assistant", "Hello", [], [])]
