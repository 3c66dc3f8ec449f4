package gpuctl

// Iterator iterates over the items of a list, page by page:
//
//	jobs := client.AllJobs(ctx, nil)
//	for jobs.Next() {
//		fmt.Println(jobs.Item().Name)
//	}
//	if err := jobs.Err(); err != nil { ... }
//
// From Go 1.23: for job, err := range client.AllJobs(ctx, nil).All.
type Iterator[T any] struct {
	fetch func(page int) ([]T, int64, error)
	page  int
	seen  int64
	total int64
	items []T
	item  T
	err   error
}

// Next advances to the next item. It returns false after the last one, and after an error, which [Iterator.Err] returns.
func (i *Iterator[T]) Next() bool {
	if i.err != nil {
		return false
	}
	if len(i.items) == 0 {
		if i.page > 0 && i.seen >= i.total {
			return false
		}
		i.page++
		if i.items, i.total, i.err = i.fetch(i.page); i.err != nil || len(i.items) == 0 {
			i.items, i.total = nil, i.seen
			return false
		}
		i.seen += int64(len(i.items))
	}
	i.item, i.items = i.items[0], i.items[1:]
	return true
}

// Item returns the current item.
func (i *Iterator[T]) Item() T { return i.item }

// Err returns the error that ended the iteration, if any.
func (i *Iterator[T]) Err() error { return i.err }

// All yields the remaining items, for range over functions; an error comes last.
func (i *Iterator[T]) All(yield func(T, error) bool) {
	for i.Next() {
		if !yield(i.item, nil) {
			return
		}
	}
	if i.err != nil {
		var none T
		yield(none, i.err)
	}
}
