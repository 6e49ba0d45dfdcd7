"""The openai SDK as Langfuse's drop-in, in functions that Langfuse observes."""

import os

from desk import OPENAI_URL, OTLP_URL, ChatLoop, play

os.environ |= {"LANGFUSE_PUBLIC_KEY": "pk-lf-none", "LANGFUSE_SECRET_KEY": "sk-lf-none"}
os.environ |= {"LANGFUSE_HOST": OTLP_URL, "LANGFUSE_BASE_URL": OTLP_URL}

from langfuse import get_client, observe, propagate_attributes
from langfuse.openai import OpenAI


def tool(_, name, args, run):
    """Run a tool in a function that Langfuse observes."""

    @observe(name=name, as_type="tool")
    def observed(**args):  # noqa: ARG001
        return run()

    return observed(**args)


CHAT = ChatLoop(OpenAI(base_url=OPENAI_URL, api_key="none").chat.completions.create, tool)


@observe(name="desk", as_type="agent")
def desk(text, session, turn):  # noqa: ARG001
    """Answer a customer."""
    return CHAT.take(session, turn)


def take(session, turn):
    """Play one turn."""
    with propagate_attributes(session_id=session):
        desk(turn["user"], session, turn)


play(take)
get_client().shutdown()
