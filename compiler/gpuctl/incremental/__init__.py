"""A compile in parts: what an earlier one left is used again, and several processes share the rest."""
