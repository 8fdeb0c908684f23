-- Grants several locks to a token, all or none, with one fence.
-- KEYS[1]  the fence counter
-- KEYS[2]  and all further ones: the locks, in the same hash slot
-- ARGV[1]  the owner's token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- Answers  the fence as a decimal string if all are ours now, nil if someone else holds one

local fence, ours = nil, 0
for i = 2, #KEYS do
  local mine, held = fence_if_ours(KEYS[i], ARGV[1])
  if mine then
    fence, ours = mine, ours + 1
  elseif held then
    return false
  end
end
-- All are ours already when the answer to an earlier try was lost: it is repeated.
if ours < #KEYS - 1 then
  fence = mint_fence(KEYS[1])
end
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1] .. ':' .. fence, 'PX', ARGV[2])
end
return fence
