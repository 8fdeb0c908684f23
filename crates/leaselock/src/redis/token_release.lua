-- Frees a lock if the token holds it, and hands it on to the next process that waits, when
-- token_release_alone.lua did not. After that and token_hand_on.lua.
-- KEYS[1]  the lock
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue; all three in one hash slot
-- ARGV[1]  the owner's token
-- Answers  1 if freed, 0 if the lock is free already or someone else's

hand_on_or_free(KEYS[1], KEYS[2], KEYS[3], waiting)
return 1
