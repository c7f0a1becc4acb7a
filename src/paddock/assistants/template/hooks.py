"""Runs on this host around each message. Both functions may be left out; both may be async, or not."""


async def create(ctx, messages):
    """Before the agent. Return other messages, a Reply that ends it here, or nothing."""
    if ctx.sandbox is not None:
        await ctx.sandbox.mkdir("drafts")
    ctx.state["asked"] = messages[-1].text


async def next(ctx, reply):
    """After it. Return another text for the user, or nothing."""
    ctx.log(f"{len(reply.text.split())} words in answer to {len(ctx.state['asked'].split())}")
