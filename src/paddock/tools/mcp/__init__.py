"""The tools of a sandbox as an MCP server, over standard streams or HTTP. It needs the extra `paddock[bridge]`."""

from paddock.extras import need

need("bridge")
