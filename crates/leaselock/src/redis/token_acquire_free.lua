-- What token_acquire.lua does at the first attempt if nobody holds the lock and one fence is enough,
-- which is most often. Before all that is only for the other cases: a script makes its functions
-- anew each time that it runs. After clock.lua; keys, arguments and answer as there.

local may_take = ARGV[5] == '1' or redis.call('EXISTS', KEYS[3]) == 0
if ARGV[3] == '1' and may_take then
  local fence = time[1] .. string.format('%06d', time[2])
  if redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence, 'NX', 'PX', ARGV[2]) then
    local last = redis.call('GET', KEYS[2])
    if not last or tonumber(last) < now_us then
      redis.call('SET', KEYS[2], fence, 'PX', FENCE_KEPT_MS)
      return fence
    end
    -- The counter is ahead of the clock.
    redis.call('DEL', KEYS[1])
  end
end

