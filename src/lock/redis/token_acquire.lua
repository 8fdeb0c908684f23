-- Grants a lock to a token, with fences, when token_acquire_free.lua did not. After waiters.lua.
-- KEYS[1]  the lock: 'token:fence' and, where its process listens, ':channel'
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue
-- KEYS[4]  what its waiters said; all four in one hash slot
-- ARGV[1]  the owner's token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  how long the counter is kept without an acquire, in milliseconds: it is seeded from the
--          clock, so one that is gone loses nothing, and names that nobody uses leave no key
-- ARGV[4]  how many fences it would like
-- ARGV[5]  the channel on which its process listens, or ''
-- ARGV[6]  '1' if it waits when it is refused
-- ARGV[7]  '1' if nobody may overtake those who came before
-- ARGV[8]  for how long a waiter that is not seen counts as alive, in milliseconds
-- Answers  the first fence as a decimal string and how many others wait, if the lock is ours now;
--          nil if someone else holds it or is to have it first

local token, channel, fair = ARGV[1], ARGV[5], ARGV[7] == '1'
-- Without a message a waiter is of no use in the queue, unless the queue is the order.
local queues = ARGV[6] == '1' and (fair or channel ~= '')

local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #token + 1) == token .. ':' then
  -- Ours already: handed on by a release, or the answer to an earlier try was lost. Repeat it,
  -- with a lease from now on.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  leave(KEYS[3], KEYS[4], token)
  return {string.match(held, ':(%d+)'), redis.call('ZCARD', KEYS[3])}
end
local others = 0
if held or redis.call('EXISTS', KEYS[3]) == 1 then
  local new = queues and join(KEYS[3], KEYS[4], token, ARGV[2], ARGV[4], channel)
  if held then
    local holder, holders_channel = string.match(held, '^(%x+):%d+:(.+)$')
    if new and holder then
      -- It should not go on handing over inside its process.
      redis.call('PUBLISH', holders_channel, holder .. ' wanted')
    end
    return false
  end
  if fair then
    local first = first_waiter(KEYS[3], KEYS[4], ARGV[8])
    if first and first ~= token then
      return false
    end
  end
  leave(KEYS[3], KEYS[4], token)
  others = redis.call('ZCARD', KEYS[3])
end

return {write_hold(), others}
