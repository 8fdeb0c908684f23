-- Grants a read, unless a writer holds the name or is the next to hold it. After
-- read_write_queue.lua, which says what the keys are.
-- ARGV[1]  the token, unique to this acquire
-- ARGV[2]  the lease in milliseconds
-- ARGV[3]  the channel on which its process listens, or ''
-- ARGV[4]  '1' if it waits when it is refused
-- ARGV[5]  the number of this attempt
-- Answers  1 if the token holds the name now, nil if not

local me = 'r:' .. ARGV[1]
-- In already if the answer to an earlier try was lost, or by a release.
if prolong(READERS, ARGV[1], ARGV[2]) then
  redis.call('HDEL', QUEUE, me)
  return 1
end
local _, written = writes(ARGV[1])
local waited = redis.call('HGET', QUEUE, me)
local early = waited and tonumber(string.match(waited, '^%d+')) < last_writer_us
if written or (not early and who_waits()) then
  if ARGV[4] == '1' then
    join(QUEUE, me, false, ARGV[2], '1', ARGV[3], ARGV[5])
  end
  return false
end
let_reader_in(ARGV[1], ARGV[2])
return 1
