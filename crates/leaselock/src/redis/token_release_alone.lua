-- What token_release.lua does where nobody waits, which is most often. Before all that is only for
-- the other cases: a script makes its functions anew each time that it runs. Keys, arguments and
-- answer as there.

local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then
  -- Perhaps it only waited.
  redis.call('HDEL', KEYS[3], ARGV[1])
  return 0
end
local waiting = redis.call('HGETALL', KEYS[3])
if #waiting == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

