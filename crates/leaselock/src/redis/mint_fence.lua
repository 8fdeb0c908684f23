-- The head of scripts that grant a lock with fences: they are above the last one of their counter
-- and not below the server's clock, so they rise even after the counter was lost. Answers the first
-- of `fences` numbers; a number above 2^53 - 1 must not be used. After clock.lua.
local function mint_fence(counter, fences)
  local fence = now_us
  local last = tonumber(redis.call('GET', counter) or '0')
  if last >= fence then
    fence = last + 1
  end
  if fence > 9007199254740991 then
    error('FENCE no whole number is left above ' .. text(last))
  end
  local first = text(fence)
  local new_last, more = first, (tonumber(fences) or 1) - 1
  if more > 0 then
    new_last = text(math.min(fence + more, 9007199254740991))
  end
  -- The counter is seeded from the clock, so an expired counter loses nothing, and unused names
  -- leave no key.
  redis.call('SET', counter, new_last, 'PX', FENCE_KEPT_MS)
  return first
end

