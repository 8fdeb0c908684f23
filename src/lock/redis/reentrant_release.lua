-- Ends one entry; frees the lock and tells it with the last one.
-- KEYS[1]  the lock, also the name of the channel
-- ARGV[1]  the entry
-- Answers  1 if ended, 0 if the entry is gone

if redis.call('HDEL', KEYS[1], 'entry:' .. ARGV[1]) == 0 then
  return 0
end
-- Owner and fence are left.
if redis.call('HLEN', KEYS[1]) == 2 then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1], 'free')
end
return 1
