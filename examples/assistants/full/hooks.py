"""Looks after what goes in and out; `log` is told to whoever follows the request."""

from wording import shouted


def create(ctx, messages):
    ctx.state["before"] = ctx.wait(ctx.sandbox.list("."))
    ctx.log(f"{ctx.assistant} for {ctx.user} in {ctx.sandbox.workdir}")


async def next(ctx, reply):
    made = sorted(set(await ctx.sandbox.list(".")) - set(ctx.state["before"]))
    ctx.log(f"new files: {', '.join(made) or 'none'}")
    return shouted(reply.text) if "SHOUT" in ctx.messages[-1].text else None
