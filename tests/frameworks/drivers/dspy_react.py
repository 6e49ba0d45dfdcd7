"""A `ReAct` of DSPy, with OpenInference."""

import dspy
from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, lookup_policy, play, provider
from openinference.instrumentation import using_session
from openinference.instrumentation.dspy import DSPyInstrumentor

TRACES = provider()
DSPyInstrumentor().instrument(tracer_provider=TRACES)
dspy.configure(lm=dspy.LM(f"openai/{MODEL}", api_base=OPENAI_URL, api_key="none", cache=False))

FIELDS = {
    "history": (dspy.History, dspy.InputField()),
    "question": (str, dspy.InputField()),
    "answer": (str, dspy.OutputField()),
}
policy = dspy.ReAct(dspy.Signature("question -> answer", POLICY), [lookup_policy], max_iters=8)


def ask_policy_agent(question: str):
    """Ask the policy team a question."""
    return policy(question=question).answer


desk = dspy.ReAct(dspy.Signature(FIELDS, DESK), [*DESK_TOOLS, ask_policy_agent], max_iters=8)
HISTORY = {}


def take(session, turn):
    """Play one turn."""
    messages = HISTORY.setdefault(session, [])
    with using_session(session):
        done = desk(question=turn["user"], history=dspy.History(messages=list(messages)))
    messages.append({"question": turn["user"], "answer": done.answer})


play(take)
TRACES.shutdown()
