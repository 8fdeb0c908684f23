-- The head of scripts that grant a lock with fences, and of the one that raises them. After clock.lua.

-- Writes a counter. One that expired starts again from the clock, so it is kept until the clock has passed it: a
-- raised one, and that of a clock that was set back, are ahead. Unused names leave no key.
local function keep_fence(counter, last)
  local ahead_ms = math.max(0, (last - now_us) / 1000)
  redis.call('SET', counter, text(last), 'PX', text(FENCE_KEPT_MS + ahead_ms))
end

-- Answers the first of `fences` numbers above the last one of their counter and not below the server's clock, so
-- they rise even after the counter was lost. A number above 2^53 - 1 must not be used.
local function mint_fence(counter, fences)
  local last = tonumber(redis.call('GET', counter) or '0')
  local fence = math.max(now_us, last + 1)
  if fence > 9007199254740991 then
    error('FENCE no whole number is left above ' .. text(last))
  end
  keep_fence(counter, math.min(fence + (tonumber(fences) or 1) - 1, 9007199254740991))
  return text(fence)
end

