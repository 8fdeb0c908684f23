-- Grants a lock to a token, with fences, when token_acquire_free.lua did not. After waiters.lua.
-- KEYS[1]  the lock: 'token:fence' and, where its holder is notified of waiters, ':channel'
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue; all three in one hash slot
-- ARGV[1]  the owner's token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  how many fences it would like
-- ARGV[4]  the channel on which its process listens, or ''
-- ARGV[5]  '1' if it may take a lock that is free without regard to the queue, in which it is not
-- ARGV[6]  '1' if it is to be in the queue when it is refused
-- ARGV[7]  '1' if a new contender must not overtake the queue
-- ARGV[8]  not used
-- ARGV[9]  the number of this attempt
-- Answers  the first fence as a decimal string, followed by a space and how many others wait unless
--          nobody does, if the lock is ours now; nil if someone else holds it or is to have it
--          first

local token = ARGV[1]

local function granted(fence)
  redis.call('HDEL', KEYS[3], token)
  return fence .. ' ' .. redis.call('HLEN', KEYS[3])
end

local function queue_up()
  return ARGV[6] == '1' and join(KEYS[3], token, ARGV[5] == '1', ARGV[2], ARGV[3], ARGV[4], ARGV[9])
end

local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #token + 1) == token .. ':' then
  -- Ours already: handed on by a release, or the answer to an earlier try was lost. Repeat it,
  -- with a lease from now on.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return granted(string.match(held, ':(%d+)'))
end
if held then
  if queue_up() then
    tell_holder(held)
  end
  return false
end
if ARGV[7] == '1' then
  local first = first_waiter(KEYS[3], redis.call('HGETALL', KEYS[3]))
  if first and first ~= token then
    queue_up()
    return false
  end
end
local fence = mint_fence(KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], lock_value(token, fence, ARGV[3], ARGV[4]), 'PX', ARGV[2])
return granted(fence)
