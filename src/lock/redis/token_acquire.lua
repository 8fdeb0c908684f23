-- Grants a lock to a token, with a fence.
-- KEYS[1]  the lock
-- KEYS[2]  the fence counter, in the same hash slot
-- ARGV[1]  the owner's token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  how long the counter is kept without an acquire, in milliseconds: it is seeded from the
--          clock, so one that is gone loses nothing, and names that nobody uses leave no key
-- Answers  the fence as a decimal string if the lock is ours now, nil if someone else holds it

local held = redis.call('GET', KEYS[1])
if held then
  if string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then
    return false
  end
  -- Ours already: the answer to an earlier try was lost. Repeat it, with a lease from now on.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return string.sub(held, #ARGV[1] + 2)
end

local time = redis.call('TIME')
local fence = tonumber(time[1]) * 1000000 + tonumber(time[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if last >= fence then
  fence = last + 1
end
if fence > 9007199254740991 then
  return redis.error_reply('FENCE no whole number is left above ' .. string.format('%.0f', last))
end
-- '%.0f', since tostring would write 1.7e+15.
local fence_text = string.format('%.0f', fence)
redis.call('SET', KEYS[2], fence_text, 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence_text, 'NX', 'PX', ARGV[2])
return fence_text
