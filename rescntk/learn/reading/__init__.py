"""Tables, arrays, lists, labels, weights and groups as users give them, read and checked."""
