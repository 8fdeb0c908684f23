-- Removes a counter, and the streams beside it if they are empty. An entry stays in its stream until its order is decided
-- or it is moved to the other stream, so an empty stream has nothing that is unread or pending.
-- KEYS[1]  the counter, a hash
-- KEYS[2], KEYS[3]  the queue and the dead letters, streams; without them for a part of a split counter
redis.call('UNLINK', KEYS[1])
for number = 2, #KEYS do
  if redis.call('XLEN', KEYS[number]) == 0 then
    redis.call('UNLINK', KEYS[number])
  end
end
