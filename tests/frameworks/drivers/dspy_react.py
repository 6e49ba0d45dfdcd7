"""A ReAct module of DSPy, with OpenInference."""

import dspy
from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, in_words, lookup_policy, play, provider
from openinference.instrumentation import using_session
from openinference.instrumentation.dspy import DSPyInstrumentor

TRACES = provider()
DSPyInstrumentor().instrument(tracer_provider=TRACES)
CHAT = dspy.LM(f"openai/{MODEL}", api_base=OPENAI_URL, api_key="none", cache=False, num_retries=2)
dspy.configure(lm=CHAT)


def agent(instructions, tools):
    """Return a new agent."""
    signature = dspy.Signature("history: dspy.History, question: str -> answer: str", instructions)
    return dspy.ReAct(signature, tools=tools, max_iters=8)


def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    done = agent(POLICY, [in_words(lookup_policy)])(question=question, history=dspy.History(messages=[]))
    return done.answer


HISTORY = {}


def take(session, turn):
    """Play one turn."""
    said = HISTORY.setdefault(session, [])
    with using_session(session), dspy.context(lm=CHAT):
        desk = agent(DESK, [*map(in_words, DESK_TOOLS), ask_policy_agent])
        done = desk(question=turn["user"], history=dspy.History(messages=list(said)))
    said.append({"question": turn["user"], "answer": done.answer})


play(take)
TRACES.shutdown()
