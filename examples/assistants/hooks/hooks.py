"""Before the agent: the text becomes a file. After it: what it has counted is held against the truth."""


async def create(ctx, messages):
    text = messages[-1].text
    await ctx.sandbox.write("text.txt", text)
    ctx.state["words"] = len(text.split())
    ctx.log(f"a text of {len(text)} characters")
    return "Count the words of text.txt."


async def next(ctx, reply):
    found = (await ctx.sandbox.read("count.txt")).strip()
    verdict = "right" if found == str(ctx.state["words"]) else f"wrong, it has {ctx.state['words']}"
    return f"{found} words, which is {verdict}."
