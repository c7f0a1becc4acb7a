// What `opencode run` keeps to itself, as lines like its own: tools that begin, words as they come, what sub-agents do,
// and that a model is asked again.
import { writeSync } from "node:fs"

const begun = new Set()
const ask = globalThis.fetch
let refusal // the status of the last answer that was none: what is told of a retry is words alone

globalThis.fetch = Object.assign(async (...given) => {
  refusal = undefined
  const answer = await ask(...given)
  if (!answer.ok) refusal = answer.status
  return answer
}, ask)

const isNews = (type, properties) => {
  if (type === "message.part.delta") return true
  if (type === "session.status") return properties.status?.type === "retry"
  if (type !== "message.part.updated") return false
  const { type: kind, callID, state } = properties.part
  if (kind !== "tool") return true
  if (state.status === "pending") return false
  if (state.status !== "running") return true
  const stage = `${callID} ${state.metadata?.sessionId ?? ""}` // what it prints is told once, at its end
  if (begun.has(stage)) return false
  begun.add(stage)
  return true
}

export const Paddock = async () => ({
  event: async ({ event }) => {
    if (!isNews(event.type, event.properties)) return
    writeSync(1, JSON.stringify({ ...event.properties, type: event.type, refusal }) + "\n")
  },
})
