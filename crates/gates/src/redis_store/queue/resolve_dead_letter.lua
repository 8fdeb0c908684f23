-- Takes an entry out of the dead letters; back into the queue, if it is to be tried again.
-- KEYS[1]  the queue, a stream
-- KEYS[2]  the dead letters, a stream
-- ARGV[1]  the entry
-- ARGV[2]  1 when it is to be tried again
-- Answers 1 when it was there.
local found = redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1])[1]
if not found then
  return 0
end
if ARGV[2] == '1' then
  local fields = found[2]
  for i = 1, #fields, 2 do
    if fields[i] == 'order' then
      redis.call('XADD', KEYS[1], '*', 'order', fields[i + 1])
    end
  end
end
redis.call('XDEL', KEYS[2], ARGV[1])
return 1
