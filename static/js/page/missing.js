/**
 * The page for addresses that lead nowhere.
 */
import { startFrame } from '../frame.js';

startFrame('title.missing');
