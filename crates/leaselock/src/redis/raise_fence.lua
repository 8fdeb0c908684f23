-- Raises a fence counter to a given fence. Never lowers it. After mint_fence.lua.
-- KEYS[1]  the fence counter
-- ARGV[1]  the fence that the counter must have reached, below 2^53
-- Answers  the counter as a decimal string

local last = tonumber(redis.call('GET', KEYS[1]) or '0')
local raised = math.max(last, tonumber(ARGV[1]))
keep_fence(KEYS[1], raised)
return text(raised)
