-- Raises a fence counter to a given fence. Never lowers it.
-- KEYS[1]  the fence counter
-- ARGV[1]  the fence that the counter must have reached, below 2^53
-- Answers  the counter as a decimal string

local last = tonumber(redis.call('GET', KEYS[1]) or '0')
local raised = math.max(last, tonumber(ARGV[1]))
local raised_text = string.format('%.0f', raised)
redis.call('SET', KEYS[1], raised_text, 'PX', FENCE_KEPT_MS)
return raised_text
