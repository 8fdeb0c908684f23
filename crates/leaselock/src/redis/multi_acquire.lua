-- Grants several locks to a token, all or none, with one fence. After multi_names.lua, which says
-- what the keys are.
-- ARGV[1]  the owner's token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  the channel on which its process listens, if it waits when it is refused
-- ARGV[4]  the number of this attempt
-- Answers  the fence as a decimal string if all are ours now, nil if someone else holds one

local token = ARGV[1]
local fence, ours, blocking, blocked_by, free = nil, 0, nil, nil, {}
for i = 1, #KEYS, 3 do
  local mine, held = fence_if_ours(KEYS[i], token)
  if mine then
    fence, ours = mine, ours + 1
  elseif held then
    blocking, blocked_by = blocking or i, blocked_by or held
  else
    free[#free + 1] = i
  end
end
if blocking then
  if ARGV[3] ~= '' then
    -- One name alone can be handed on; of several, a message says when the first taken one is free.
    local fences = #KEYS == 3 and '1' or '0'
    if join(KEYS[blocking + 2], token, false, ARGV[2], fences, ARGV[3], ARGV[4]) then
      tell_holder(blocked_by)
    end
    -- Those that are free may have been left to this one: they are for the others now.
    for _, i in ipairs(free) do
      redis.call('HDEL', KEYS[i + 2], token)
      let_go_of(i)
    end
  end
  return false
end
-- All are ours already when the answer to an earlier try was lost, or by a release.
if #free > 0 then
  fence = mint_fence(KEYS[2])
end
for i = 1, #KEYS, 3 do
  redis.call('SET', KEYS[i], token .. ':' .. fence, 'PX', ARGV[2])
  redis.call('HDEL', KEYS[i + 2], token)
end
return fence
