import multiprocessing, sys, chappe
def f(t):
    from chappe import tubes
    import multiprocessing.util as u
    print(tubes._handed_on, list(u._afterfork_registry.keys()), multiprocessing.process.current_process().__dict__.get('run'), flush=True)
    sys.exit(3)
if __name__=='__main__':
    t=chappe.Tube()
    p=multiprocessing.get_context('spawn').Process(target=f,args=(t,)); p.start(); p.join(); print(p.exitcode)
