-- Frees those locks that the token holds, and hands each on to the next process that waits for it
-- alone. After waiters.lua, mint_fence.lua and multi_ours.lua.
-- KEYS     for each name three: the lock, the fence counter, the queue
-- ARGV[1]  the owner's token
-- Answers  1 if it held all of them, 0 if one is free already or someone else's

local ours = 0
for i = 1, #KEYS, 3 do
  if fence_if_ours(KEYS[i], ARGV[1]) then
    ours = ours + 1
    local grant = function(token, lease_ms, fences, channel)
      local fence = mint_fence(KEYS[i + 1], fences)
      redis.call('SET', KEYS[i], hold(token, fence, fences, channel), 'PX', lease_ms)
      return fence
    end
    if not hand_on(KEYS[i + 2], redis.call('HGETALL', KEYS[i + 2]), grant) then
      redis.call('DEL', KEYS[i])
    end
  end
end
return ours * 3 == #KEYS and 1 or 0
