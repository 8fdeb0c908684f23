-- Grants a write when nobody holds the name and no reader goes before it. After
-- read_write_queue.lua, which says what the keys are.
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  the channel on which its process listens, or ''
-- ARGV[4]  '1' if it waits when it is refused
-- ARGV[5]  the number of this attempt
-- Answers  the fence as a decimal string if the token holds the name now, nil if not

local mine, written = writes(ARGV[1])
if mine then
  -- Ours already: granted by a release, or the answer to an earlier try was lost. Repeat it, with a
  -- lease from now on.
  redis.call('PEXPIRE', LOCK, ARGV[2])
  return string.sub(mine, #ARGV[1] + 2)
end
local _, _, early_reader = who_waits()
if written or early_reader or redis.call('ZCARD', READERS) > 0 then
  if ARGV[4] == '1' then
    join(QUEUE, 'w:' .. ARGV[1], false, ARGV[2], '1', ARGV[3], ARGV[5])
  end
  return false
end
return let_writer_in(ARGV[1], ARGV[2])
