"""CPU that is lent to reclaimed pods and taken back: sampler, use, stall, and the size of the reclaim pool."""
