-- The head of scripts for several names at once. After token_hand_on.lua.
-- KEYS  for each name three: the lock, the fence counter, the queue; all in one hash slot, so that
--       the counter is the same

-- The fence of a lock if the token holds it, else nil; and what holds it, or false.
local function fence_if_ours(lock, token)
  local held = redis.call('GET', lock)
  if held and string.sub(held, 1, #token + 1) == token .. ':' then
    return string.sub(held, #token + 2), held
  end
  return nil, held
end

-- Hands the i-th name, which nobody holds any more, on to whoever waits for it, or leaves it free.
local function let_go_of(i)
  hand_on_or_free(KEYS[i], KEYS[i + 1], KEYS[i + 2], redis.call('HGETALL', KEYS[i + 2]))
end

