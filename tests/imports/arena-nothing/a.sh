arena list
