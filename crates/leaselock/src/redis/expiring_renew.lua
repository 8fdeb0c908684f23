-- Starts the lease of a hold anew if it is live. Never creates it, and never touches another's.
-- KEYS[1]  the holds
-- ARGV[1]  the token
-- ARGV[2]  the lease in milliseconds
-- Answers  1 if renewed, 0 if the hold has ended

return prolong(KEYS[1], ARGV[1], ARGV[2]) and 1 or 0
