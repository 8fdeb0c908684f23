-- Frees those locks that the token holds, and hands each on to the next process that waits for it.
-- After multi_names.lua, which says what the keys are.
-- ARGV[1]  the owner's token
-- Answers  1 if it held all of them, 0 if one is free already or someone else's

local ours = 0
for i = 1, #KEYS, 3 do
  local mine, held = fence_if_ours(KEYS[i], ARGV[1])
  -- Perhaps it only waited.
  redis.call('HDEL', KEYS[i + 2], ARGV[1])
  if mine then
    ours = ours + 1
  end
  -- One that is free may have been left to this one.
  if mine or not held then
    let_go_of(i)
  end
end
return ours * 3 == #KEYS and 1 or 0
